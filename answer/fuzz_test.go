package answer

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// strictlyInvalid reports whether a text is not one JSON value with every name
// once.
func strictlyInvalid(text string) bool { return !jsontext.Value(text).IsValid() }

// oracle reads answers the slow way: it decodes each value, and looks at every
// place in it. What a dialect means by a place is the tables' part to test.
type oracle struct {
	tally
	under   grammar
	isWhole bool
	spoke   bool
	dec     *jsontext.Decoder
}

func (o *oracle) finished() { o.Finished = o.Finished || !o.isWhole }

func (o *oracle) generated() {
	if !o.spoke {
		o.spoke = true
		o.Tokens++
	}
}

// answers takes in values that stand at the root, each an event of its own.
func (o *oracle) answers(data ...string) {
	for _, d := range data {
		o.spoke = false
		o.tally.next()
		o.dec = jsontext.NewDecoder(strings.NewReader(d), tolerant)
		if kind := o.dec.PeekKind(); o.value(root, elsewhere, 1) && o.isWhole {
			o.Finished = kind == '{' || kind == '['
		}
	}
}

// value takes in the value that comes next and stands at p, depth levels deep.
func (o *oracle) value(p, parent place, depth int) bool {
	if depth > maxLevels+1 {
		p, parent = elsewhere, elsewhere
	}
	kind := o.dec.PeekKind()
	if parent == token && strings.ContainsRune(`{["0`, rune(kind)) {
		o.generated()
	}
	switch kind {
	case '{', '[':
		return o.container(p, kind == '{', depth)
	case '"':
		v, err := o.dec.ReadValue()
		if err == nil {
			o.text(p, string(v[1:len(v)-1]))
		}
		return err == nil
	case '0':
		v, err := o.dec.ReadValue()
		n := 0
		for i := 0; i < len(v) && '0' <= v[i] && v[i] <= '9'; i++ {
			n = min(n*10+int(v[i]-'0'), maxNumber)
		}
		if err == nil && v[0] != '-' {
			o.count(p, n)
		}
		return err == nil
	case 't':
		if p == ended {
			o.finished()
		}
	}
	_, err := o.dec.ReadToken()
	return err == nil
}

func (o *oracle) container(p place, object bool, depth int) bool {
	if _, err := o.dec.ReadToken(); err != nil {
		return false
	}
	if object && p == finish {
		o.finished()
	}
	if object && p == failure {
		o.fail()
	}
	if depth > maxLevels {
		p = elsewhere
	}
	for kind := o.dec.PeekKind(); kind != '}' && kind != ']'; kind = o.dec.PeekKind() {
		if kind == 0 {
			return false
		}
		member := p.element()
		if object {
			name, err := o.dec.ReadValue()
			if err != nil {
				return false
			}
			member = o.under(p, name[1:len(name)-1])
		}
		if !o.value(member, p, depth+1) {
			return false
		}
	}
	_, err := o.dec.ReadToken()
	return err == nil
}

func (o *oracle) text(p place, raw string) {
	short := []byte(raw[:min(len(raw), maxText)])
	switch p {
	case token:
		if raw != "" {
			o.generated()
		}
	case final:
		o.finished()
		if raw != "" {
			o.generated()
		}
	case finish:
		if raw != "" {
			o.finished()
		}
	case failure:
		if raw != "" {
			o.fail()
		}
		o.blame.message(short)
		o.judge()
	case message:
		o.blame.message(short)
		o.judge()
	case code, word:
		o.blame.word(short)
		o.judge()
	case kind:
		switch raw {
		case "message_stop", "response.completed", "response.incomplete":
			o.finished()
		case "error", "response.failed":
			o.fail()
		}
	}
}

// wellFormed takes a stream or a whole answer apart, if it is one of a simple
// kind that leaves nothing to interpret.
func wellFormed(contentType, answer string) (data []string, done, ok bool) {
	switch contentType {
	case typeWhole:
		data = []string{answer}
	case typeLines:
		data = strings.Split(strings.TrimSuffix(answer, "\n"), "\n")
	default:
		for event := range strings.SplitSeq(strings.TrimSuffix(answer, "\n\n"), "\n\n") {
			d, ok := strings.CutPrefix(event, "data: ")
			if !ok || strings.ContainsAny(d, "\r\n") {
				return nil, false, false
			}
			if d == doneData {
				done = true
				continue
			}
			data = append(data, d)
		}
	}
	for _, d := range data {
		if !jsontext.Value(d).IsValid(tolerant) {
			return nil, false, false
		}
	}
	return data, done, true
}

func expected(api, contentType, answer string) (Facts, bool) {
	data, done, ok := wellFormed(contentType, answer)
	if !ok {
		return Facts{}, false
	}
	o := oracle{tally: newTally(), under: grammarOf(api), isWhole: contentType == typeWhole}
	o.answers(data...)
	o.Done = done
	return o.Facts, true
}

// agree has the answer read at once, byte by byte and cut at random, and compared
// with a decoder's view where that has one.
func agree(t *testing.T, api, contentType string, answer []byte, cuts *rand.Rand) (compared bool) {
	t.Helper()
	kept := bytes.Clone(answer)
	atOnce, bytewise, pieces := New(api, contentType), New(api, contentType), New(api, contentType)
	atOnce.Observe(answer)
	exact := -1
	for i := range answer {
		bytewise.Observe(answer[i : i+1])
		if exact < 0 && bytewise.Facts().Tokens > 0 {
			exact = i + 1
		}
	}
	known := -1
	for i := 0; i < len(answer); {
		n := min(len(answer)-i, 1+cuts.IntN(300))
		pieces.Observe(answer[i : i+n])
		i += n
		if known < 0 && pieces.Facts().Tokens > 0 {
			known = i
		}
	}
	want := *atOnce.Facts()
	if *bytewise.Facts() != want || *pieces.Facts() != want {
		t.Fatalf("%s as %s: %+v at once, %+v bytewise, %+v in pieces, of\n%.2000q", api, contentType, want, *bytewise.Facts(), *pieces.Facts(), answer)
	}
	// The moment the first token is known is that of its own byte.
	if (known < 0) != (exact < 0) || known >= 0 && (known < exact || known >= exact+300) {
		t.Fatalf("%s as %s: the first token was known after %d bytes, its own is at %d, in\n%.2000q", api, contentType, known, exact, answer)
	}
	if !bytes.Equal(answer, kept) {
		t.Fatal("the reader changed the bytes")
	}
	facts, ok := expected(api, contentType, string(answer))
	if ok && facts != want {
		t.Fatalf("%s as %s: %+v, a decoder says %+v, of\n%.2000q", api, contentType, want, facts, answer)
	}
	if body := InBand(answer); ok && body != nil && strictlyInvalid(string(body)) && !jsontext.Value(body).IsValid(tolerant) {
		t.Fatalf("the error in it is no JSON: %q", body)
	}
	return ok
}

// events that streams are made of at random, by API. %s stands for text.
var randomEvents = map[string][]string{
	request.Chat: {
		role, hello, stop, counted,
		`{"id":"x","choices":[{"index":0,"delta":{"content":%s},"logprobs":null,"finish_reason":null}],"usage":null}`,
		`{"id":"x","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}],"usage":{"prompt_tokens":5,"completion_tokens":3}}`,
		`{"id":"x","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}],"usage":{"prompt_tokens":5,"completion_tokens":4}}`,
		`{"error":{"message":%s,"code":503}}`, `[DONE]`,
	},
	request.Completions: {`{"choices":[{"index":0,"text":%s}]}`, `{"choices":[{"text":%s},{"text":%s,"finish_reason":%s}]}`, counted},
	request.Messages: {
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":%s}}`,
		`{"type":"message_start","message":{"usage":{"input_tokens":2,"cache_read_input_tokens":7,"output_tokens":1}}}`,
		`{"type":"message_delta","usage":{"output_tokens":5}}`, `{"type":"message_stop"}`, `{"type":"error","error":{"type":%s}}`,
	},
	request.Responses: {
		`{"type":"response.output_text.delta","sequence_number":3,"delta":%s,"obfuscation":"a"}`,
		`{"type":"response.output_text.delta","sequence_number":44,"delta":%s,"obfuscation":""}`,
		`{"type":"response.completed","response":{"error":null,"usage":{"input_tokens":3,"output_tokens":4}}}`,
		`{"type":"error","code":%s,"message":%s}`,
	},
	request.OllamaChat: {
		`{"created_at":"a","message":{"content":%s},"done":false}`, `{"created_at":"bc","message":{"content":%s},"done":false}`,
		`{"created_at":"b","message":{"content":%s,"thinking":%s},"done":false}`, `{"done":true,"eval_count":3,"prompt_eval_count":0}`, `{"error":%s}`,
	},
	request.GenerateStream: {
		`{"index":1,"token":{"id":2,"text":%s,"logprob":-0.5,"special":false},"generated_text":null,"details":null}`,
		`{"index":22,"token":{"id":33,"text":%s,"logprob":0,"special":false},"generated_text":null,"details":null}`,
		`{"token":{"text":%s,"id":5},"generated_text":%s,"details":{"generated_tokens":3,"finish_reason":"length"}}`, `{"error":%s,"error_type":%s}`,
		`{"text":%s,"meta_info":{"prompt_tokens":3,"completion_tokens":2,"finish_reason":{"type":%s}}}`,
	},
	request.Completion: {`{"content":%s,"stop":false,"tokens_predicted":1}`, `{"content":%s,"stop":true}`, `{"content":%s,"stop":false,"tokens_predicted":2}`},
}

// However the network cuts a stream, and whatever the model says in it, the
// answer is understood the same way as by a real JSON decoder.
func TestReaderAgreesWithDecoder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "a", `"usage":{"prompt_tokens":1}`, "\n\ndata: [DONE]\n\n", `\`, `\"`, "é\u2028😀", strings.Repeat("long ", 300), `"finish_reason":"stop"`, "}]}", "overloaded", "503"}
	for api, kinds := range randomEvents {
		for range 200 {
			var data []string
			for range 1 + random.IntN(12) {
				kind := kinds[random.IntN(len(kinds))]
				again := 1 + random.IntN(3)
				for range again {
					event := kind
					for strings.Contains(event, "%s") {
						text, err := jsontext.AppendQuote(nil, texts[random.IntN(len(texts))])
						if err != nil {
							t.Fatal(err)
						}
						event = strings.Replace(event, "%s", string(text), 1)
					}
					data = append(data, event)
				}
			}
			contentType := ContentType(api)
			answer := sse(data...)
			if !request.StreamsSSE(api) {
				answer = ndjson(data...)
			}
			if !agree(t, api, contentType, []byte(answer), random) {
				t.Fatalf("the decoder does not understand %q", answer)
			}
			agree(t, api, typeWhole, []byte(data[0]), random)
			for _, api := range wholeAPIs {
				agree(t, api, typeWhole, []byte(data[0]), random)
			}
		}
	}
}

// Whatever comes, in whatever pieces: no panic, and the same facts.
func FuzzReader(f *testing.F) {
	f.Add([]byte(sse(role, hello, stop, counted, "[DONE]")), uint64(1))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"\\u0041\\\"\"}}]}\r\n\r\ndata:[DONE]"), uint64(2))
	f.Add([]byte(sse(hello, hello)+"data: "+hello+"\n"+"data: "+stop+"\n\n"), uint64(3))
	f.Add([]byte(sse(chunk(`{"content":""}`), chunk(`{"content":"a"}`), chunk(`{"content":"b"}`), chunk(`{"content":"b\"}`), stop)), uint64(5))
	f.Add([]byte(sse(beside(`""`), beside(`""`), beside(`"a"`), hello, chunk(`{"content":""}`), hello, hello, role, role)), uint64(6))
	f.Add([]byte(strings.Repeat("[{", 50)+"\"usage\":{\"prompt_tokens\":1"), uint64(4))
	f.Add([]byte("error: {\"code\":503}\ndata: "+hello+"\n\n"), uint64(7))
	for _, r := range encodedAnswers {
		f.Add([]byte(r.answer), uint64(9))
	}
	for api, kinds := range randomEvents {
		var data []string
		for _, k := range kinds {
			k = strings.ReplaceAll(k, "%s", `"a"`)
			data = append(data, k, k)
		}
		f.Add([]byte(sse(data...)), uint64(len(api)))
		f.Add([]byte(ndjson(data...)), uint64(len(api)))
		f.Add([]byte(data[0]), uint64(len(api)))
	}
	f.Fuzz(func(t *testing.T, answer []byte, seed uint64) {
		cuts := rand.New(rand.NewPCG(seed, 0))
		for _, api := range apis {
			agree(t, api, ContentType(api), answer, cuts)
			agree(t, api, typeWhole, answer, cuts)
		}
		for _, api := range wholeAPIs {
			agree(t, api, typeWhole, answer, cuts)
		}
	})
}
