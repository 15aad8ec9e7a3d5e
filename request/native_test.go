package request

import (
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var natives = []string{Responses, Messages, OllamaChat, OllamaGenerate, Generate, GenerateStream, Completion, Root}

var nativeBodies = []struct {
	name, api, body string
	want            llmlb.Features // Model, Stream, MaxOutputTokens
}{
	{"responses", Responses, `{"model":"m","input":"hi","stream":true,"max_output_tokens":7}`, llmlb.Features{Model: "m", Stream: true, MaxOutputTokens: 7}},
	{"responses without a limit", Responses, `{"model":"m","input":"hi","max_output_tokens":null,"max_tokens":9}`, llmlb.Features{Model: "m"}},
	{"messages", Messages, `{"model":"m","max_tokens":1024,"messages":[],"stream":false}`, llmlb.Features{Model: "m", MaxOutputTokens: 1024}},
	{"ollama streams by itself", OllamaChat, `{"model":"m","messages":[],"options":{"num_ctx":8,"num_predict":12}}`, llmlb.Features{Model: "m", Stream: true, MaxOutputTokens: 12}},
	{"ollama, null", OllamaGenerate, `{"model":"m","prompt":"","stream":null}`, llmlb.Features{Model: "m", Stream: true}},
	{"ollama, no stream", OllamaGenerate, `{"model":"m","stream":false,"options":{"num_predict":-1}}`, llmlb.Features{Model: "m"}},
	{"ollama, broken", OllamaChat, `{"model":"m","stream":false`, llmlb.Features{Stream: true, Broken: true}},
	{"ollama, options of another type", OllamaChat, `{"stream":false,"options":[{"num_predict":5}]}`, llmlb.Features{}},
	{"tgi", Generate, `{"inputs":"hi","parameters":{"max_new_tokens":20,"best_of":3}}`, llmlb.Features{MaxOutputTokens: 60}},
	{"sglang", Generate, `{"text":"hi","stream":true,"sampling_params":{"n":2,"max_new_tokens":20}}`, llmlb.Features{Stream: true, MaxOutputTokens: 40}},
	{"sglang, a list of parameters", Generate, `{"text":["a"],"sampling_params":[{"max_new_tokens":20}]}`, llmlb.Features{}},
	{"tgi stream", GenerateStream, `{"inputs":"hi","stream":false,"parameters":{"max_new_tokens":20}}`, llmlb.Features{Stream: true, MaxOutputTokens: 20}},
	{"tgi stream, broken", GenerateStream, `{"inputs":`, llmlb.Features{Stream: true, Broken: true}},
	{"tgi root", Root, `{"inputs":"hi","stream":true,"parameters":null}`, llmlb.Features{Stream: true}},
	{"llama.cpp", Completion, `{"prompt":"hi","n_predict":16,"max_tokens":8}`, llmlb.Features{MaxOutputTokens: 16}},
	{"llama.cpp, the other name", Completion, `{"prompt":"hi","max_tokens":8,"stream":true}`, llmlb.Features{Stream: true, MaxOutputTokens: 8}},
	{"llama.cpp, endless", Completion, `{"prompt":"hi","n_predict":-1}`, llmlb.Features{}},
	{"the last limit counts", Completion, `{"n_predict":5,"n_predict":6}`, llmlb.Features{MaxOutputTokens: 6}},
	{"absurd", Generate, `{"parameters":{"max_new_tokens":2000000000,"best_of":2000000000}}`, llmlb.Features{MaxOutputTokens: maxCount}},
	{"another's limit", Responses, `{"parameters":{"max_new_tokens":20},"n_predict":5,"options":{"num_predict":3}}`, llmlb.Features{}},
	{"no object", Messages, `[{"model":"m","stream":true}]`, llmlb.Features{Broken: true}},
	{"something behind", Messages, `{"model":"m","stream":true}{}`, llmlb.Features{Broken: true}},
}

// An engine's own API tells its model, its limit and whether it streams; its
// prompt stays unread, so it is routed and refused as it would be without.
func TestReadNative(t *testing.T) {
	for _, c := range nativeBodies {
		f := mustRead(t, c.api, c.body)
		want := mustRead(t, "", c.body)
		want.API, want.Model, want.Stream, want.MaxOutputTokens = c.api, c.want.Model, c.want.Stream, c.want.MaxOutputTokens
		want.Broken = c.want.Broken
		if !f.Opaque || !reflect.DeepEqual(f, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, f, want)
		}
	}
	long := strings.Repeat("x", 5000)
	if f := mustRead(t, Messages, `{"model":"`+long+`"}`); f.Model != long[:maxModel] {
		t.Errorf("a name of %d bytes was kept", len(f.Model))
	}
	for _, api := range natives {
		if _, err := Read(api, []byte(`{"model":"m","model":"n"}`), nil); err == nil {
			t.Errorf("%s: two models were accepted", api)
		}
		if _, err := Read(api, []byte(`{"priority":1}`), nil); err == nil {
			t.Errorf("%s: a steering field was accepted", api)
		}
	}
}

func TestStreamsSSE(t *testing.T) {
	for _, api := range append([]string{Chat, Completions, ""}, natives...) {
		want := api != "" && !strings.HasPrefix(api, "ollama")
		if got := StreamsSSE(api); got != want {
			t.Errorf("StreamsSSE(%q) = %v; want %v", api, got, want)
		}
	}
}
