package request

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var testOptions = &Options{Seed: 0x5EED, AffinityKey: 0xAFF1}

func mustRead(t *testing.T, api, body string) llmlb.Features {
	t.Helper()
	before := body
	f, err := Read(api, []byte(body), testOptions)
	if err != nil {
		t.Fatalf("reading %.200s: %v", body, err)
	}
	if body != before {
		t.Fatalf("reading changed the body")
	}
	return f
}

func understood(t *testing.T, api, body string) llmlb.Features {
	t.Helper()
	f := mustRead(t, api, body)
	if f.Opaque {
		t.Fatalf("%.200s was not understood", body)
	}
	if want := llmlb.BlockCount(f.PromptBytes); len(f.Blocks) != want {
		t.Fatalf("%d blocks for %d bytes; want %d", len(f.Blocks), f.PromptBytes, want)
	}
	return f
}

// chat puts messages into a body.
func chat(messages string, fields ...string) string {
	return `{"model":"m","messages":[` + messages + `]` + strings.Join(append([]string{""}, fields...), ",") + `}`
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func isPrefix(a, b []uint64) bool {
	return len(a) <= len(b) && reflect.DeepEqual(append([]uint64{}, a...), append([]uint64{}, b[:len(a)]...))
}

func TestAPIOf(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/chat/completions":     Chat,
		"/chat/completions":        Chat,
		"/v1/completions":          Completions,
		"/completions":             Completion,
		"/completion":              Completion,
		"/v1/responses":            Responses,
		"/v1/messages":             Messages,
		"/api/chat":                OllamaChat,
		"/api/generate":            OllamaGenerate,
		"/generate":                Generate,
		"/generate_stream":         GenerateStream,
		"/":                        Root,
		"/v1/messages/":            "",
		"/api/tags":                "",
		"/v1/chat/completions/":    "",
		"/V1/chat/completions":     "",
		"/v1/embeddings":           Embeddings,
		"/pooling":                 Pooling,
		"/classify":                Classify,
		"/rerank":                  Rerank,
		"/v1/rerank":               Rerank,
		"/v2/rerank":               Rerank,
		"/score":                   Score,
		"/v1/score":                Score,
		"/v1/audio/transcriptions": Transcription,
		"/v1/audio/translations":   Transcription,
		"/v1/images/generations":   Image,
		"/v1/images/edits":         Image,
		"/v1/models":               "",
		"":                         "",
	} {
		if got := APIOf(path); got != want {
			t.Errorf("APIOf(%q) = %q; want %q", path, got, want)
		}
	}
}

func TestReadSimpleFields(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		name, body string
		want       llmlb.Features // Model, Stream, StreamUsage, MaxOutputTokens
	}{
		{"nothing", `{}`, llmlb.Features{}},
		{"all", `{"model":"a/b:c","stream":true,"stream_options":{"include_usage":true},"max_tokens":10}`, llmlb.Features{Model: "a/b:c", Stream: true, StreamUsage: true, MaxOutputTokens: 10}},
		{"nulls", `{"model":null,"stream":null,"stream_options":null,"max_tokens":null,"n":null}`, llmlb.Features{}},
		{"wrong types", `{"model":7,"stream":[],"stream_options":5,"max_tokens":{},"n":"x","messages":3}`, llmlb.Features{}},
		{"model as object", `{"model":{"a":"model"}}`, llmlb.Features{}},
		{"escaped model", `{"model":"\u006d\"\\\/\n\ud83d\ude00\ud83d"}`, llmlb.Features{Model: "m\"\\/\n😀\uFFFD"}},
		{"endless model", `{"model":"` + long + `"}`, llmlb.Features{Model: long[:maxModel]}},
		{"completion tokens override", `{"max_tokens":10,"max_completion_tokens":20}`, llmlb.Features{MaxOutputTokens: 20}},
		{"null does not override", `{"max_completion_tokens":null,"max_tokens":10}`, llmlb.Features{MaxOutputTokens: 10}},
		{"choices", `{"max_tokens":10,"n":3}`, llmlb.Features{MaxOutputTokens: 30}},
		{"best of", `{"max_tokens":10,"n":2,"best_of":5}`, llmlb.Features{MaxOutputTokens: 50}},
		{"no choices", `{"max_tokens":10,"n":0}`, llmlb.Features{MaxOutputTokens: 10}},
		{"minus one is unlimited", `{"max_tokens":-1}`, llmlb.Features{}},
		{"written as fraction", `{"max_tokens":1.2e2}`, llmlb.Features{MaxOutputTokens: 120}},
		{"written as string", `{"max_tokens":"12"}`, llmlb.Features{MaxOutputTokens: 12}},
		{"absurd", `{"max_tokens":1e999,"n":99999999999999999999}`, llmlb.Features{MaxOutputTokens: maxCount}},
		{"absurd product", `{"max_tokens":2000000000,"n":2000000000}`, llmlb.Features{MaxOutputTokens: maxCount}},
		{"infinite", `{"max_tokens":Infinity,"n":NaN}`, llmlb.Features{}},
		{"stream as number", `{"stream":1}`, llmlb.Features{Stream: true}},
		{"stream as word", `{"stream":"True"}`, llmlb.Features{Stream: true}},
		{"stream as other word", `{"stream":"nope"}`, llmlb.Features{}},
		{"escaped keys", `{"mod\u0065l":"m","\u0073tream":true}`, llmlb.Features{Model: "m", Stream: true}},
		{"nested names are not ours", `{"metadata":{"model":"x","priority":1,"stream":true},"user":"u"}`, llmlb.Features{}},
		{"case variant alone is not read", `{"Stream":true,"Max_Tokens":5}`, llmlb.Features{}},
		{"space", " \r\n\t{ \"model\" : \"m\" , \"stream\" : true } \n", llmlb.Features{Model: "m", Stream: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, api := range []string{Chat, Completions} {
				f := understood(t, api, c.body)
				if f.API != api || f.Model != c.want.Model || f.Stream != c.want.Stream ||
					f.StreamUsage != c.want.StreamUsage || f.MaxOutputTokens != c.want.MaxOutputTokens {
					t.Errorf("%s: got %+v; want %+v", api, f, c.want)
				}
				if f.InputTokens < 1 {
					t.Errorf("%s: %d input tokens; want at least 1", api, f.InputTokens)
				}
			}
		})
	}
}

// What cannot be understood is the engine's to answer. It must still go to the
// same server each time, and cost what its size suggests.
func TestReadOpaque(t *testing.T) {
	for _, body := range []string{
		``, ` `, `null`, `5`, `"model"`, `[]`, `[{"model":"m"}]`, `{`, `}`, `{"model"`, `{"model":`, `{"model":"m"`,
		`{"model":"m",}`, `{,}`, `{"model":"m"]`, `{"a":[1,2}}`, `{"a":[}`, `{"a":{]}`, `{"model" "m"}`, `{model:"m"}`,
		`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":-}`, `{"a":+1}`, `{"a":tru}`, `{"a":True}`, `{"a":nul}`,
		`{"a":'x'}`, `{"a":"x}`, `{"a":"x\"}`, `{"model":"m"} x`, `{"model":"m"}{}`, `{"model":"m"},`, `{}]`, "{}\x00",
		"\xEF\xBB\xBF", "\xEF\xBB\xBF\xEF\xBB\xBF{}", "model=m&stream=true", "\xFE\xED\xFA\xCE",
	} {
		f := mustRead(t, Chat, body)
		want := llmlb.Features{API: Chat, Opaque: true, Broken: true, Key: f.Key, InputTokens: max(1, (len(body)+3)/4)}
		if !reflect.DeepEqual(f, want) {
			t.Errorf("%q: got %+v; want %+v", body, f, want)
		}
	}

	same := strings.Repeat("?", keyBytes)
	a, b := mustRead(t, Chat, same+"a"), mustRead(t, Chat, same+"b")
	if a.Key != b.Key {
		t.Error("opaque bodies with the same first 4 KiB have different keys")
	}
	if c := mustRead(t, Chat, "!"+same); c.Key == a.Key {
		t.Error("opaque bodies that differ at the start have the same key")
	}
	if f := mustRead(t, "", `{"model":"m","inputs":"x"}`); !f.Opaque || f.API != "" {
		t.Errorf("a body of an unread dialect gave %+v; want it opaque", f)
	}
}

// Engines take what steers them on their native paths too, whose bodies are not
// read otherwise.
func TestUnreadDialectsAreNoWayRoundARefusal(t *testing.T) {
	for _, body := range []string{
		`{"text":"x","rid":"1"}`,
		`{"prompt":"x","id_slot":2}`,
		`{"input":"x","model":"cheap","model":"secret"}`,
		`{"messages":[],"prior\u0069ty":-9}`,
	} {
		if f, err := Read("", []byte(body), nil); err == nil {
			t.Errorf("%s: accepted as %+v", body, f)
		}
	}
	for _, body := range []string{
		"--boundary\r\nContent-Disposition: form-data; name=\"priority\"\r\n\r\n1\r\n",
		`{"text":"x","sampling_params":{"priority":1}}`,
	} {
		if f := mustRead(t, "", body); !f.Opaque {
			t.Errorf("%s: read as %+v, want it opaque", body, f)
		}
	}
}

// Agents send byte order marks, half surrogates and broken UTF-8; none of it
// may stop a request or send it elsewhere the next time.
func TestReadOddEncodings(t *testing.T) {
	for _, body := range []string{
		chat(`{"role":"user","content":"\ud800"}`),
		chat("{\"role\":\"user\",\"content\":\"\xFF\xFE\xC3\x28\"}"),
		chat("{\"role\":\"user\",\"content\":\"tab\there\"}"),
		"\xEF\xBB\xBF" + chat(`{"role":"user","content":"hi"}`),
		chat(`{"role":"user","content":"\u00e9\x"}`),
	} {
		a, b := understood(t, Chat, body), understood(t, Chat, body)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%q read twice: %+v and %+v", body, a, b)
		}
		if a.Model != "m" || a.PromptBytes == 0 {
			t.Errorf("%q: got %+v", body, a)
		}
	}
	plain := chat(`{"role":"user","content":"hi"}`)
	if a, b := understood(t, Chat, plain), understood(t, Chat, "\xEF\xBB\xBF"+plain); !reflect.DeepEqual(a, b) {
		t.Errorf("a byte order mark changes what is read: %+v and %+v", a, b)
	}
}

// 200,000 brackets cost a bit each up to the bound and nothing after it.
func TestReadDepth(t *testing.T) {
	nest := func(n int) string {
		return `{"x":` + strings.Repeat("[", n-1) + "0" + strings.Repeat("]", n-1) + `,"model":"m"}`
	}
	for _, c := range []struct {
		max, depth int
		refused    bool
	}{
		{0, 256, false},
		{0, 257, true},
		{0, 200000, true},
		{8, 8, false},
		{8, 9, true},
		{1, 1, false},
		{1, 2, true},
		{1 << 20, 1024, false},
		{1 << 20, 1025, true},
		{-1, 256, false},
	} {
		_, err := Read(Chat, []byte(nest(c.depth)), &Options{MaxDepth: c.max})
		if (err != nil) != c.refused {
			t.Errorf("bound %d, depth %d: error %v; want refused %v", c.max, c.depth, err, c.refused)
		}
	}
	for _, body := range []string{
		strings.Repeat("[", 200000),
		`{"a":` + strings.Repeat(`{"a":`, 200000),
		strings.Repeat(`[{"a":`, 100000),
	} {
		_, err := Read(Chat, []byte(body), nil)
		if err == nil || !strings.Contains(err.Error(), "nested") {
			t.Errorf("%.12s…: error %v; want a refusal of its depth", body, err)
		}
	}
}
