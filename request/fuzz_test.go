package request

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var seedBodies = []string{
	``, `{}`, `[]`, `null`, `{"a":1}x`, "\xEF\xBB\xBF{}", `{"model":"m"}`,
	`{"model":"cheap","model":"secret"}`, `{"mod\u0065l":"cheap","model":"secret"}`, `{"model":"a","MODEL":"b"}`, `{"Model":"a"}`,
	"{\"\u017Ftream\":true,\"stream\":false}", `{"priority":1}`, `{"priority":null}`, `{"rid":"x","rid":"y"}`,
	`{"model":"\u006d\ud83d\ude00","stream":true,"stream_options":{"include_usage":true},"max_tokens":1e2,"n":3,"best_of":4}`,
	`{"max_completion_tokens":0,"max_tokens":"17","stream":"yes"}`,
	`{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},"plain",null,7]},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"42"}]}],"tools":[{"type":"function"}]}`,
	`{"messages":[{"content":"no role","r\u006fle":"user"},5,"x",null,[],{}],"functions":{},"documents":["d"],"reasoning_effort":"high","chat_template_kwargs":{"a":[]}}`,
	`{"messages":"text"}`, `{"messages":{"role":"user"}}`, `{"messages":[{"role":"user","content":[{"type":"refusal","refusal":"no"},{"type":"thinking","thinking":"hm"}]}]}`,
	`{"prompt":"hello\n\"world\"","suffix":"end","add_special_tokens":false}`, `{"prompt":["a","b"]}`, `{"prompt":[1,2,3,4]}`, `{"prompt":[[1,2],[3,4],[]]}`,
	`{"prompt":[]}`, `{"prompt":""}`, `{"prompt":[1,"a",[2,"b"],{"prompt_string":"p","multimodal_data":["AA=="]},-1,1.5,12345678901,null]}`, `{"prompt":7}`,
	`{"prompt":[[]],"prompt_embeds":"AA==","cache_salt":"s","extra_key":"k","prompt_cache_key":"conversation"}`,
	`{"a":[[[[[[[[{"b":[{}]}]]]]]]]],"c":-0.5e+7,"d":NaN}`, `{"x":"\\\\\"","y":"\\"}`,
	`{"messages":[{"role":"user","content":[{"type":"refusal","refusal":"nking","thinking":"ho"},{"type":"thinking","thinking":"hm"}]}]}`,
}

// FuzzRead compares with a strict library and a slow, plain reading on top of
// it. For all other inputs it asks only for a defined result.
func FuzzRead(f *testing.F) {
	for _, s := range seedBodies {
		f.Add([]byte(s))
	}
	for _, s := range dialectBodies {
		f.Add([]byte(s.body))
	}
	f.Add(chatBody(9000))
	f.Add([]byte(`{"prompt":[` + strings.Repeat("7,", 2000) + `7],"suffix":"abc"}`))
	f.Add([]byte(`{"prompt":["abc",` + strings.Repeat("70001,", 1100) + `7]}`))
	f.Add([]byte(`{"prompt":"` + strings.Repeat("word ", 1500) + `"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, api := range dialects {
			before := bytes.Clone(body)
			got, err := Read(api, body, testOptions)
			again, errAgain := Read(api, body, testOptions)
			if !reflect.DeepEqual(got, again) || !reflect.DeepEqual(err, errAgain) {
				t.Fatalf("two readings differ:\n%+v %v\n%+v %v", got, err, again, errAgain)
			}
			if !bytes.Equal(before, body) {
				t.Fatal("reading changed the body")
			}
			if err != nil {
				if r := (*Refusal)(nil); !errors.As(err, &r) {
					t.Fatalf("error of type %T", err)
				}
			} else {
				checkShape(t, got)
			}
			compare(t, api, body, got, err)
		}
	})
}

func checkShape(t *testing.T, f llmlb.Features) {
	t.Helper()
	switch {
	case f.InputTokens < 1, f.MaxOutputTokens < 0, f.MaxOutputTokens > maxCount, len(f.Model) > maxModel:
		t.Fatalf("out of bounds: %+v", f)
	case f.Opaque && (f.PromptBytes != 0 || f.Blocks != nil || f.Model != ""):
		t.Fatalf("an opaque body tells more than it may: %+v", f)
	case len(f.Blocks) != llmlb.BlockCount(f.PromptBytes):
		t.Fatalf("%d blocks for %d bytes", len(f.Blocks), f.PromptBytes)
	}
}

// compare checks a reading against the reference, if the strict library accepts
// the body.
func compare(t *testing.T, api string, body []byte, got llmlb.Features, err error) {
	t.Helper()
	names, ok := topNames(body)
	if !ok {
		return
	}
	if want := refuse(body, names); want != (err != nil) {
		t.Fatalf("error %v; the reference would refuse: %v", err, want)
	}
	if err != nil {
		return
	}
	var v jsontext.Value = bytes.TrimSpace(body)
	if v.Kind() != '{' {
		if !got.Opaque {
			t.Fatal("a body that is no object was understood")
		}
		return
	}
	if got.Opaque {
		t.Fatal("a valid object was not understood")
	}
	if !v.IsValid() { // double names somewhere inside: maps cannot show them
		return
	}
	m := object(v)
	for _, name := range names { // names in another case are Ollama's alone
		folded := foldName(name)
		if folded == name {
			continue
		}
		if strings.HasPrefix(api, "ollama") && slices.Contains(Fields(), folded) {
			m[folded] = m[name]
		}
		delete(m, name)
	}
	s := script{}
	var want llmlb.Features
	want.API, want.Encodes = api, Encodes(api)
	want.Model, _ = text(m["model"])
	want.Model = want.Model[:min(len(want.Model), maxModel)]
	want.Stream = plainStream(api, m["stream"])
	want.StreamUsage = plainTruth(object(m["stream_options"])["include_usage"])

	s.fold(foldModel, []byte(want.Model))
	for _, c := range []struct {
		name string
		tag  byte
	}{{"lora", foldAdapter}, {"cache_salt", foldSalt}, {"extra_key", foldSalt}} {
		if given(m[c.name]) {
			s.fold(c.tag, m[c.name])
		}
	}
	kind, sequences, limit := s.prompt(api, m)
	want.PromptBytes, want.TokenIDs = len(s.text), s.ids
	want.InputTokens = max(1, s.ids+(len(s.text)-4*s.ids+3)/4)
	want.Blocks, _ = s.hash(testOptions.Seed, len(s.text), len(s.folds))
	want.Key = s.key(testOptions.AffinityKey, limit)
	if len(s.text) == 0 {
		want.InputTokens = max(1, (len(body)+3)/4)
		want.Key = headKey(body, testOptions)
	}
	if named(api, m) {
		want.Key = got.Key
	}
	want.MaxOutputTokens = int(min(min(limitOf(api, m), maxCount)*float64(sequences), maxCount))
	if hasReasoningContent(m) {
		return // the reference knows one of the two names
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\n got %+v\nwant %+v", api, got, want)
	}
	if api == Completions || api == Completion {
		var r reading
		if _, refusal := r.top(api, body, testOptions); refusal != nil {
			t.Fatal(refusal)
		}
		var c canon
		c.start(testOptions, 0)
		if k, _ := r.completions(&c); k != kind {
			t.Fatalf("prompt of kind %d; want %d", k, kind)
		}
	}
}

// topNames returns the names of the outermost object, double ones included, and
// whether the strict library accepts the body but for double names.
func topNames(body []byte) (names []string, ok bool) {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	for first := true; ; first = false {
		token, err := d.ReadToken()
		if err != nil {
			return names, !first && errors.Is(err, io.EOF)
		}
		if !first && d.StackDepth() == 0 && token.Kind() != '}' && token.Kind() != ']' {
			return nil, false // a second value
		}
		if kind, n := d.StackIndex(d.StackDepth()); d.StackDepth() == 1 && kind == '{' && n%2 == 1 && token.Kind() == '"' {
			names = append(names, token.String())
		}
		if d.StackDepth() == 0 && !first || first && token.Kind() != '{' && token.Kind() != '[' {
			_, err := d.ReadToken()
			return names, errors.Is(err, io.EOF)
		}
	}
}

func foldName(name string) string {
	name = strings.ReplaceAll(strings.ReplaceAll(name, "\u017F", "s"), "\u212A", "k")
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, name)
}

// refuse is the plain verdict on a body.
func refuse(body []byte, names []string) bool {
	deepest := 0
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			break
		}
		deepest = max(deepest, d.StackDepth())
	}
	if deepest > defaultMaxDepth {
		return true
	}
	known := map[string]bool{}
	for _, name := range Fields() {
		known[name] = true
	}
	steers := map[string]bool{}
	for _, name := range SteeringFields() {
		steers[name] = true
	}
	seen := map[string]bool{}
	for _, name := range names {
		folded := foldName(name)
		if !known[folded] {
			continue
		}
		if seen[folded] || folded == "model" && name != "model" {
			return true
		}
		seen[folded] = true
		// No name is double so far, so a map shows this one's value.
		if steers[folded] && steerValueGiven(body, name) {
			return true
		}
	}
	return false
}

func steerValueGiven(body []byte, name string) bool {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for d.PeekKind() == '"' {
		token, _ := d.ReadToken()
		found := token.String() == name
		v, err := d.ReadValue()
		if err != nil {
			return false
		}
		if found {
			return v.Kind() != 'n'
		}
	}
	return false
}

func plainStream(api string, v jsontext.Value) bool {
	switch {
	case api == GenerateStream:
		return true
	case strings.HasPrefix(api, "ollama") && !given(v):
		return true
	}
	return plainTruth(v) && !Encodes(api)
}

// named reports whether the body names its conversation.
func named(api string, m map[string]jsontext.Value) bool {
	for _, name := range []string{"prompt_cache_key", "session_id"} {
		if key, _ := text(m[name]); key != "" {
			return true
		}
	}
	state := func(v jsontext.Value) bool { return given(v) && len(v) > 2 }
	return api == Responses && (state(m["conversation"]) || state(m["previous_response_id"]))
}

func plainTruth(v jsontext.Value) bool {
	if !given(v) {
		return false
	}
	word := string(v)
	if v.Kind() == '"' {
		word = word[1 : len(word)-1]
	}
	switch foldName(word) {
	case "true", "1", "1.0", "t", "y", "yes", "on":
		return true
	}
	return false
}

func plainCount(v jsontext.Value) float64 {
	if !given(v) {
		return 0
	}
	word := string(v)
	if v.Kind() == '"' {
		word = word[1 : len(word)-1]
	}
	digits := strings.Trim(word, "0123456789") == "" && word != ""
	if len(word) > 64 || !digits && jsontext.Value(word).Kind() != '0' || !digits && !jsontext.Value(word).IsValid() || strings.TrimSpace(word) != word {
		return 0
	}
	x, _ := strconv.ParseFloat(word, 64)
	return max(0, math.Floor(min(x, maxCount)))
}

func hasReasoningContent(m map[string]jsontext.Value) bool {
	for _, v := range array(m["messages"]) {
		if _, ok := object(v)["reasoning_content"]; ok {
			return true
		}
	}
	return false
}

// FuzzGrowingConversation appends a message to a chat: what the server holds of
// the shorter chat must be found again in the longer one.
func FuzzGrowingConversation(f *testing.F) {
	f.Add("system", "You are helpful.", "user", "Hi!", "assistant", strings.Repeat("long answer ", 900))
	f.Add("user", strings.Repeat("a", 255), "tool", "", "user", "x")
	f.Add("user", strings.Repeat("b", 252), "assistant", strings.Repeat("c", 8190), "", "\xFF\"\\")
	f.Fuzz(func(t *testing.T, role1, text1, role2, text2, role3, text3 string) {
		message := func(role, text string) string {
			return `{"role":` + quoted(role) + `,"content":` + quoted(text) + `}`
		}
		turns := []string{message(role1, text1), message(role2, text2), message(role3, text3)}
		tail := []string{`"tools":[{"type":"function"}]`, `"stream":true`}
		shorter := understood(t, Chat, chat(turns[0], tail...))
		for n := 2; n <= len(turns); n++ {
			longer := understood(t, Chat, chat(strings.Join(turns[:n], ","), tail...))
			if !isPrefix(shorter.Blocks, longer.Blocks) {
				t.Fatalf("turn %d lost blocks of turn %d", n, n-1)
			}
			if role1 == "user" && longer.Key != shorter.Key {
				t.Fatalf("turn %d moved home", n)
			}
			shorter = longer
		}
	})
}

// FuzzGrowingDialects does so in each dialect that has conversations, with any text
// in every place.
func FuzzGrowingDialects(f *testing.F) {
	f.Add("You are helpful.", "Hi!", strings.Repeat("long answer ", 900), "Bye.")
	f.Add("", strings.Repeat("a", 255), "\xFF\"\\", "")
	f.Fuzz(func(t *testing.T, system, user, one, two string) {
		within := func(s string) string {
			s = quoted(s)
			return s[1 : len(s)-1]
		}
		for _, c := range conversations {
			more := ""
			shorter := understood(t, c.api, c.body(within(system), within(user), more))
			for _, text := range []string{one, two} {
				more += c.turn(within(text))
				longer := understood(t, c.api, c.body(within(system), within(user), more))
				if !isPrefix(shorter.Blocks, longer.Blocks) || longer.Key != shorter.Key {
					t.Fatalf("%s: a turn lost blocks or moved home", c.api)
				}
				shorter = longer
			}
		}
	})
}
