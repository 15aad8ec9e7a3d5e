package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const (
	role    = `{"id":"c-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	hello   = `{"id":"c-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}`
	stop    = `{"id":"c-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	counted = `{"id":"c-1","choices":[],"usage":{"prompt_tokens":412,"total_tokens":430,"completion_tokens":18,"prompt_tokens_details":{"cached_tokens":352}}}`
)

// events makes a stream of the data given.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

func chunk(delta string) string {
	return `{"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

// beside is a chunk with a tool call beside the content.
func beside(content string) string {
	return chunk(`{"content":` + content + `,"tool_calls":[{"index":0}]}`)
}

func observed(stream string) facts {
	o := newEventStream()
	o.observe([]byte(stream))
	return o.facts
}

// The time to first token is what people judge a server by, so it must be that
// of the first thing the model said.
func TestFirstTokenIsTheFirstGeneratedThing(t *testing.T) {
	big := strings.Repeat("x", 200_000)
	for _, test := range []struct {
		name   string
		stream string
		want   bool
	}{
		{"nothing", "", false},
		{"a comment", ": keep-alive\n\n", false},
		{"a role", events(role), false},
		{"a role with null content", events(chunk(`{"role":"assistant","content":null}`)), false},
		{"usage alone", events(counted), false},
		{"prompt progress", events(`{"choices":[],"prompt_progress":{"total":9,"processed":3}}`), false},
		{"log probabilities beside an empty delta", events(`{"choices":[{"delta":{"content":""},"logprobs":{"content":[{"token":"a"}]}}]}`), false},
		{"no tool calls", events(chunk(`{"tool_calls":[]}`)), false},
		{"no audio", events(chunk(`{"audio":{}}`)), false},
		{"an error", events(`{"error":{"message":"content","text":"x"}}`), false},
		{"content of another object", events(`{"meta":{"content":"x","text":"y"},"content":"z","delta":{"content":"q"}}`), false},
		{"a key that only begins like one", events(chunk(`{"content_type":"x","` + strings.Repeat("content", 20) + `":"x"}`)), false},
		{"the name inside text", events(`{"choices":[{"delta":{"role":"\"content\":\"x\""}}]}`), false},
		{"the end", "data: [DONE]\n\n", false},

		{"content", events(hello), true},
		{"content after an empty one", events(chunk(`{"content":""}`), chunk(`{"content":"x"}`)), true},
		{"content after a role", events(role, hello), true},
		{"content that is one escape", events(chunk(`{"content":"\n"}`)), true},
		{"content in parts", events(chunk(`{"content":[{"type":"text","text":"x"}]}`)), true},
		{"reasoning", events(chunk(`{"reasoning":"hm"}`)), true},
		{"reasoning_content", events(chunk(`{"content":null,"reasoning_content":"hm"}`)), true},
		{"a refusal", events(chunk(`{"refusal":"no"}`)), true},
		{"a tool call", events(chunk(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}`)), true},
		{"a function call", events(chunk(`{"function_call":{"name":"f"}}`)), true},
		{"audio", events(chunk(`{"audio":{"data":"AAAA"}}`)), true},
		{"completions text", events(`{"choices":[{"index":0,"text":"x","finish_reason":null}]}`), true},
		{"no completions text", events(`{"choices":[{"index":0,"text":"","finish_reason":null}]}`), false},
		{"the second choice", events(`{"choices":[{"delta":{"content":""}},{"delta":{"content":"x"}}]}`), true},
		{"spaces as Python writes them", events(`{"choices": [{"index": 0, "delta": {"content": "x"}}]}`), true},
		{"no space after the colon", "data:" + hello + "\n\n", true},
		{"CRLF", "data: " + role + "\r\n\r\ndata: " + hello + "\r\n\r\n", true},
		{"CR", "data: " + role + "\r\rdata: " + hello + "\r\r", true},
		{"no end of line", "data: " + hello, true},
		{"an event name before it", "event: message\nid: 7\ndata: " + hello + "\n\n", true},
		{"two data lines", "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"x\"}}]}\n\n", true},
		{"after an event of 200 KB", events(`{"x":"`+big+`"}`, hello), true},
		{"at the end of an event of 200 KB", events(`{"x":"` + big + `","choices":[{"delta":{"content":"x"}}]}`), true},
		{"after broken JSON", "data: {\"bro\n\n" + events(hello), true},
		{"after deep nesting", events(`{"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `,"choices":[{"delta":{"content":"x"}}]}`), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := observed(test.stream).tokens > 0; got != test.want {
				t.Errorf("token seen: %v, want %v", got, test.want)
			}
		})
	}
}

// The time between tokens is counted in events with a token, also where most are
// passed over as like the one before.
func TestEventsWithATokenAreCounted(t *testing.T) {
	empty := strings.Replace(hello, "Hello", "", 1)
	for _, test := range []struct {
		name, stream string
		want         int
	}{
		{"none", ": ping\n\n" + events(role, stop, counted, "[DONE]"), 0},
		{"one", events(role, hello, stop, counted, "[DONE]"), 1},
		{"many alike", events(hello, hello, hello, hello), 4},
		{"empty ones between", events(hello, hello, empty, hello, empty, empty), 3},
		{"empty ones before", events(empty, empty, hello, empty, hello), 2},
		{"an escape between", events(hello, hello, chunk(`{"content":"\n"}`), hello), 4},
		{"a comment and usage between", events(hello, counted) + ": ping\n\n" + events(hello, counted), 2},
		{"a change to tool calls", events(hello, hello, beside("null"), beside("null"), beside(`""`), beside(`""`), beside(`""`), hello), 8},
		{"two choices in an event", events(`{"choices":[{"text":"a"},{"text":"b"}]}`), 1},
		{"two strings in an event", events(chunk(`{"content":"a","reasoning":"b"}`)), 1},
		{"reasoning, then content", events(chunk(`{"reasoning_content":"a"}`), chunk(`{"reasoning_content":"b"}`), hello, hello), 4},
		{"completions", events(`{"choices":[{"text":"a"}]}`, `{"choices":[{"text":"b"}]}`, `{"choices":[{"text":""}]}`, `{"choices":[{"text":"c"}]}`), 3},
		{"CRLF", strings.ReplaceAll(events(role, hello, empty, hello, counted), "\n", "\r\n"), 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := observed(test.stream).tokens; got != test.want {
				t.Errorf("at once: %d, want %d", got, test.want)
			}
			for size := 1; size < 300; size = 2*size + 1 {
				o := newEventStream()
				for i := 0; i < len(test.stream); i += size {
					o.observe([]byte(test.stream[i:min(i+size, len(test.stream))]))
				}
				if o.facts.tokens != test.want {
					t.Errorf("in pieces of %d: %d, want %d", size, o.facts.tokens, test.want)
				}
			}
		})
	}
}

// Usage is where cache hits show. Engines put it in many places.
func TestUsageIsFoundWhereverEnginesPutIt(t *testing.T) {
	none := facts{prompt: llmlb.Unknown, cached: llmlb.Unknown, output: llmlb.Unknown}
	usage := func(prompt, cached, output int) facts {
		return facts{prompt: prompt, cached: cached, output: output}
	}
	for _, test := range []struct {
		name, data string
		want       facts
	}{
		{"none", hello, none},
		{"null", `{"choices":[],"usage":null}`, none},
		{"its own chunk", counted, usage(412, 352, 18)},
		{"details null", `{"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":null}}`, usage(5, llmlb.Unknown, 2)},
		{"DeepSeek", `{"usage":{"prompt_tokens":5,"prompt_cache_hit_tokens":4,"completion_tokens":2}}`, usage(5, 4, 2)},
		{"llama.cpp", `{"choices":[],"timings":{"cache_n":300,"prompt_n":12,"predicted_n":7}}`, usage(llmlb.Unknown, 300, llmlb.Unknown)},
		{"inside a choice", `{"choices":[{"delta":{},"usage":{"prompt_tokens":9}}]}`, usage(9, llmlb.Unknown, llmlb.Unknown)},
		{"not a count", `{"usage":{"prompt_tokens":-1,"completion_tokens":"7"}}`, none},
		{"a fraction", `{"usage":{"prompt_tokens":12.75,"completion_tokens":2}}`, usage(12, llmlb.Unknown, 2)},
		{"absurd", `{"usage":{"prompt_tokens":99999999999999999999999999}}`, usage(maxNumber, llmlb.Unknown, llmlb.Unknown)},
		{"of somebody else", `{"meta":{"usage":{"prompt_tokens":9}}}`, none},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := observed(events(role, test.data, "[DONE]"))
			got.tokens, got.done, got.finished = 0, false, false
			if got != test.want {
				t.Errorf("in a stream: %+v, want %+v", got, test.want)
			}
			whole := newWholeJSON()
			whole.observe([]byte(test.data))
			whole.facts.tokens, whole.facts.finished = 0, false
			if whole.facts != test.want {
				t.Errorf("in a whole answer: %+v, want %+v", whole.facts, test.want)
			}
		})
	}
	if got := observed(events(`{"usage":{"prompt_tokens":5,"completion_tokens":1}}`, `{"usage":{"prompt_tokens":5,"completion_tokens":2}}`)); got.output != 2 {
		t.Errorf("with usage in every chunk the output is %d, want the last", got.output)
	}
}

// A stream is whole when it said so in any of the ways engines do.
func TestHowAStreamEnds(t *testing.T) {
	for _, test := range []struct {
		name, stream string
		want         llmlb.Outcome
	}{
		{"properly", events(role, hello, stop, "[DONE]"), llmlb.Served},
		{"with a reason alone", events(role, hello, stop), llmlb.Served},
		{"with the marker alone", events(hello, "[DONE]"), llmlb.Served},
		{"with the marker unterminated", events(hello) + "data:[DONE]", llmlb.Served},
		{"with usage after the marker", events(hello, "[DONE]", counted), llmlb.Served},
		{"with a broken event in the middle", events(hello) + "data: {\"bro\n\n" + events(hello, stop), llmlb.Served},
		{"cut", events(role, hello, hello), llmlb.Truncated},
		{"before it began", "", llmlb.Truncated},
		{"with the marker as text", events(role, hello, chunk(`{"content":"[DONE]"}`)), llmlb.Truncated},
		{"with an error", events(hello, `{"error":{"message":"boom","code":500}}`, "[DONE]"), llmlb.EngineError},
		{"with SGLang's full queue", events(`{"error":{"object":"error","message":"The request queue is full.","code":503}}`, "[DONE]"), llmlb.Overloaded},
		{"with a code in quotes", events(`{"error":{"code":"429"}}`), llmlb.Overloaded},
		{"with TGI's overload", events(`{"error":{"message":"Model is overloaded","http_status_code":422}}`), llmlb.Overloaded},
		{"without an error", events(hello, `{"error":null,"choices":[{"finish_reason":"stop"}]}`), llmlb.Served},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newEventStream()
			o.observe([]byte(test.stream))
			b := &body{observer: o}
			if got := b.whole(); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// piecewise observes b cut at random and tells after how many bytes the first
// token was known.
func piecewise(o observer, b []byte, cuts *rand.Rand) (known int) {
	known = -1
	for i := 0; i < len(b); {
		n := min(len(b)-i, 1+cuts.IntN(40))
		o.observe(b[i : i+n])
		i += n
		if known < 0 && o.told().tokens > 0 {
			known = i
		}
	}
	return known
}

// oracle reads a stream the slow way: split, decode, look.
func oracle(stream string) facts {
	f := newFacts()
	for event := range strings.SplitSeq(stream, "\n\n") {
		data := strings.TrimPrefix(event, "data: ")
		if data == "[DONE]" {
			f.done = true
			continue
		}
		var c struct {
			Choices []struct {
				Delta  map[string]any `json:"delta"`
				Text   string         `json:"text"`
				Finish *string        `json:"finish_reason"`
			} `json:"choices"`
			Usage *struct {
				Prompt  int `json:"prompt_tokens"`
				Output  int `json:"completion_tokens"`
				Details *struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage"`
		}
		if json.Unmarshal([]byte(data), &c) != nil {
			continue
		}
		token := false
		for _, choice := range c.Choices {
			token = token || choice.Text != "" || choice.Delta["content"] != nil && choice.Delta["content"] != ""
			f.finished = f.finished || choice.Finish != nil
		}
		if token {
			f.tokens++
		}
		if c.Usage != nil {
			f.prompt, f.output = c.Usage.Prompt, c.Usage.Output
			if c.Usage.Details != nil {
				f.cached = c.Usage.Details.Cached
			}
		}
	}
	return f
}

// However the network cuts a stream, and whatever the model says in it, the
// answer is understood the same way as by a real JSON decoder.
func TestObserverAgreesWithDecoder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "a", `"usage":{"prompt_tokens":1}`, "\n\ndata: [DONE]\n\n", `\`, `\"`, "é\u2028😀", strings.Repeat("long ", 3000), `"finish_reason":"stop"`, "}]}"}
	for range 300 {
		var data []string
		for range 1 + random.IntN(12) {
			text, _ := json.Marshal(texts[random.IntN(len(texts))])
			switch random.IntN(6) {
			case 0:
				data = append(data, counted)
			case 1:
				data = append(data, stop)
			case 2:
				data = append(data, fmt.Sprintf(`{"choices":[{"index":0,"text":%s,"finish_reason":null}]}`, text))
			default:
				data = append(data, fmt.Sprintf(`{"id":"x","choices":[{"index":0,"delta":{"content":%s},"logprobs":null,"finish_reason":null}],"usage":null}`, text))
			}
		}
		stream := events(data...)
		want := oracle(stream)
		if got := observed(stream); got != want {
			t.Fatalf("at once: %+v, want %+v, of\n%s", got, want, stream)
		}
		o := newEventStream()
		piecewise(o, []byte(stream), random)
		if o.facts != want {
			t.Fatalf("in pieces: %+v, want %+v, of\n%s", o.facts, want, stream)
		}
	}
}

// Whatever comes, in whatever pieces: no panic, and the same facts. The moment
// the first token is known is that of its own byte, not of a later one.
func FuzzObserve(f *testing.F) {
	f.Add([]byte(events(role, hello, stop, counted, "[DONE]")), uint64(1))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"\\u0041\\\"\"}}]}\r\n\r\ndata:[DONE]"), uint64(2))
	f.Add([]byte(events(hello, hello)+"data: "+hello+"\n"+"data: "+stop+"\n\n"), uint64(3))
	f.Add([]byte(events(chunk(`{"content":""}`), chunk(`{"content":"a"}`), chunk(`{"content":"b"}`), chunk(`{"content":"b\"}`), stop)), uint64(5))
	f.Add([]byte(events(beside(`""`), beside(`""`), beside(`"a"`), hello, chunk(`{"content":""}`), hello, hello, role, role)), uint64(6))
	f.Add([]byte(strings.Repeat("[{", 50)+"\"usage\":{\"prompt_tokens\":1"), uint64(4))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		kept := bytes.Clone(b)
		for _, make := range []func() observer{
			func() observer { return newEventStream() },
			func() observer { return newWholeJSON() },
		} {
			whole, bytewise, pieces := make(), make(), make()
			whole.observe(b)
			exact := -1
			for i := range b {
				bytewise.observe(b[i : i+1])
				if exact < 0 && bytewise.told().tokens > 0 {
					exact = i + 1
				}
			}
			known := piecewise(pieces, b, rand.New(rand.NewPCG(seed, 0)))
			if *whole.told() != *bytewise.told() || *whole.told() != *pieces.told() {
				t.Fatalf("%+v at once, %+v bytewise, %+v in pieces", *whole.told(), *bytewise.told(), *pieces.told())
			}
			if (known < 0) != (exact < 0) || known >= 0 && (known < exact || known >= exact+40) {
				t.Fatalf("the first token was known after %d bytes, its own is at %d", known, exact)
			}
			if !bytes.Equal(b, kept) {
				t.Fatal("the observer changed the bytes")
			}
		}
	})
}

// streams for measuring: after the first token, as nearly all events are.
func started(event string) (*eventStream, []byte) {
	o := newEventStream()
	o.observe([]byte(events(role, hello)))
	return o, []byte(events(event))
}

const vllmChunk = `{"id":"chatcmpl-0a1b2c3d4e5f60718293a4b5c6d7e8f9","object":"chat.completion.chunk","created":1764400000,"model":"meta-llama/Llama-3.1-8B-Instruct","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}`

// A stream must not cost memory per token.
func TestObservingAllocatesNothing(t *testing.T) {
	o, event := started(vllmChunk)
	if n := testing.AllocsPerRun(100, func() { o.observe(event) }); n != 0 {
		t.Errorf("%v allocations per event, want none", n)
	}
	_, usage := started(counted)
	half := len(usage) / 2
	if n := testing.AllocsPerRun(100, func() { o.observe(usage[:half]); o.observe(usage[half:]) }); n != 0 {
		t.Errorf("%v allocations per cut event with usage, want none", n)
	}
}

func BenchmarkObserveEvent(b *testing.B) {
	for _, bench := range []struct{ name, event string }{
		{"content", vllmChunk},
		{"usage-null", strings.TrimSuffix(vllmChunk, "}") + `,"usage":null}`},
		{"usage", counted},
	} {
		b.Run(bench.name, func(b *testing.B) {
			o, event := started(bench.event)
			b.SetBytes(int64(len(event)))
			b.ReportAllocs()
			for b.Loop() {
				o.observe(event)
			}
		})
	}
	b.Run("cut", func(b *testing.B) {
		o, event := started(vllmChunk)
		b.SetBytes(int64(len(event)))
		b.ReportAllocs()
		for b.Loop() {
			o.observe(event[:100])
			o.observe(event[100:])
		}
	})
}

func BenchmarkObserveWholeJSON(b *testing.B) {
	whole := []byte(`{"choices":[{"message":{"role":"assistant","content":"` + strings.Repeat(`a line of text\n`, 2000) + `"}}],"usage":{"prompt_tokens":5}}`)
	b.SetBytes(int64(len(whole)))
	b.ReportAllocs()
	for b.Loop() {
		newWholeJSON().observe(whole)
	}
}
