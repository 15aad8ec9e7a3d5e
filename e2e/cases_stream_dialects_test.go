package e2e

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// dialect is an API as some engine speaks it.
type dialect struct {
	name, path, body, contentType string

	// pieces of a whole answer, the last ones of which, from marker on, say that
	// it is whole.
	pieces []string
	marker int

	// failures are how its engines say in a 200, in place of an answer, that
	// there will be none.
	failures []inBand
}

// inBand is an error in a 200.
type inBand struct{ name, text, outcome string }

// namedEvents makes events of pairs of a name and data.
func namedEvents(pairs ...string) []string {
	var list []string
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, "event: "+pairs[i]+"\ndata: "+pairs[i+1]+"\n\n")
	}
	return list
}

// lines makes each text a line.
func lines(texts ...string) []string {
	list := make([]string, len(texts))
	for i, l := range texts {
		list[i] = l + "\n"
	}
	return list
}

const ndjson = "application/x-ndjson"

var dialects = []dialect{
	{
		name: "chat", path: chatPath, contentType: eventStream,
		body:   `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		pieces: events(answerEvents...), marker: 4,
		failures: []inBand{
			{"vLLM", `data: {"error":{"message":"EngineCore died","type":"InternalServerError","param":null,"code":500}}` + "\n\ndata: [DONE]\n\n", "engine_error"},
			{"older vLLM", `data: {"object":"error","message":"EngineCore died","type":"InternalServerError","param":null,"code":500}` + "\n\ndata: [DONE]\n\n", "engine_error"},
			{"SGLang", `data: {"error":{"object":"error","message":"The request queue is full.","type":"abort","param":null,"code":503}}` + "\n\ndata: [DONE]\n\n", "overloaded"},
			{"TGI", `data: {"error":{"message":"Model is overloaded","http_status_code":422}}` + "\n\ndata: [DONE]\n\n", "overloaded"},
			{"llama.cpp", `data: {"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}` + "\n\n", "overloaded"},
			{"older llama.cpp", `error: {"code":500,"message":"slot unavailable","type":"server_error"}` + "\n\n", "engine_error"},
			{"behind a role and a ping", ": ping\n\n" + events(answerEvents[0])[0] + `data: {"error":{"message":"boom","code":500}}` + "\n\n", "engine_error"},
		},
	},
	{
		name: "completions", path: "/v1/completions", contentType: eventStream,
		body: `{"model":"m","stream":true,"prompt":"hi"}`,
		pieces: events(
			`{"choices":[{"index":0,"text":"one","finish_reason":null}]}`,
			`{"choices":[{"index":0,"text":" two","finish_reason":null}]}`,
			`{"choices":[{"index":0,"text":"","finish_reason":"length"}]}`,
			`[DONE]`,
		),
		marker:   2,
		failures: []inBand{{"vLLM", `data: {"error":{"message":"boom","type":"InternalServerError","code":500}}` + "\n\ndata: [DONE]\n\n", "engine_error"}},
	},
	{
		name: "messages", path: "/v1/messages", contentType: eventStream,
		body: `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
		pieces: namedEvents(
			"message_start", `{"type":"message_start","message":{"id":"x","role":"assistant","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}`,
			"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			"ping", `{"type":"ping"}`,
			"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"one"}}`,
			"content_block_stop", `{"type":"content_block_stop","index":0}`,
			"message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`,
			"message_stop", `{"type":"message_stop"}`,
		),
		marker: 6,
		failures: []inBand{
			{"overloaded", namedEvents("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)[0], "overloaded"},
			{"broken", namedEvents("error", `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`)[0], "engine_error"},
		},
	},
	{
		name: "responses", path: "/v1/responses", contentType: eventStream,
		body: `{"model":"m","stream":true,"input":"hi"}`,
		pieces: namedEvents(
			"response.created", `{"type":"response.created","sequence_number":0,"response":{"id":"x","status":"in_progress","error":null,"output":[],"usage":null}}`,
			"response.in_progress", `{"type":"response.in_progress","sequence_number":1,"response":{"id":"x","status":"in_progress","error":null,"output":[],"usage":null}}`,
			"response.output_item.added", `{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"y","type":"message","content":[]}}`,
			"response.output_text.delta", `{"type":"response.output_text.delta","sequence_number":3,"output_index":0,"delta":"one"}`,
			"response.completed", `{"type":"response.completed","sequence_number":4,"response":{"id":"x","status":"completed","error":null,"output":[],"usage":{"input_tokens":10,"output_tokens":1}}}`,
		),
		marker: 4,
		failures: []inBand{
			{"error", namedEvents("error", `{"type":"error","code":"server_error","message":"boom","param":null}`)[0], "engine_error"},
			{"response.failed", namedEvents("response.failed", `{"type":"response.failed","response":{"id":"x","status":"failed","error":{"code":"server_error","message":"boom"}}}`)[0], "engine_error"},
		},
	},
	{
		name: "Ollama chat", path: "/api/chat", contentType: ndjson,
		body: `{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
		pieces: lines(
			`{"model":"m","created_at":"2026-11-01T00:00:00Z","message":{"role":"assistant","content":"one"},"done":false}`,
			`{"model":"m","created_at":"2026-11-01T00:00:01Z","message":{"role":"assistant","content":" two"},"done":false}`,
			`{"model":"m","created_at":"2026-11-01T00:00:02Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":10,"eval_count":2}`,
		),
		marker:   2,
		failures: []inBand{{"error", `{"error":"model runner has unexpectedly stopped"}` + "\n", "engine_error"}},
	},
	{
		name: "Ollama generate", path: "/api/generate", contentType: ndjson,
		body: `{"model":"m","prompt":"hi"}`,
		pieces: lines(
			`{"model":"m","created_at":"2026-11-01T00:00:00Z","response":"one","done":false}`,
			`{"model":"m","created_at":"2026-11-01T00:00:01Z","response":"","done":true,"done_reason":"stop","eval_count":1}`,
		),
		marker:   1,
		failures: []inBand{{"error", `{"error":"server busy, please try again.  maximum pending requests exceeded"}` + "\n", "overloaded"}},
	},
	{
		name: "TGI generate_stream", path: "/generate_stream", contentType: eventStream,
		body: `{"inputs":"hi","parameters":{"max_new_tokens":2}}`,
		pieces: []string{
			`data:{"index":1,"token":{"id":5,"text":"one","logprob":-0.5,"special":false},"generated_text":null,"details":null}` + "\n\n",
			`data:{"index":2,"token":{"id":6,"text":" two","logprob":-0.5,"special":false},"generated_text":"one two","details":{"finish_reason":"length","generated_tokens":2,"input_length":1}}` + "\n\n",
		},
		marker: 1,
		failures: []inBand{
			{"overloaded", `data:{"error":"Model is overloaded","error_type":"overloaded"}` + "\n\n", "overloaded"},
			{"generation", `data:{"error":"Request failed during generation: Server error","error_type":"generation"}` + "\n\n", "engine_error"},
		},
	},
	{
		name: "SGLang generate", path: "/generate", contentType: eventStream,
		body: `{"text":"hi","stream":true,"sampling_params":{"max_new_tokens":2}}`,
		pieces: events(
			`{"text":"one","output_ids":[5],"meta_info":{"id":"x","finish_reason":null,"prompt_tokens":1,"completion_tokens":1}}`,
			`{"text":"one two","output_ids":[5,6],"meta_info":{"id":"x","finish_reason":{"type":"length","length":2},"prompt_tokens":1,"completion_tokens":2}}`,
			`[DONE]`,
		),
		marker:   1,
		failures: []inBand{{"full", `data: {"error":{"message":"The request queue is full.","code":503}}` + "\n\ndata: [DONE]\n\n", "overloaded"}},
	},
	{
		name: "llama.cpp completion", path: "/completion", contentType: eventStream,
		body: `{"prompt":"hi","stream":true,"n_predict":2}`,
		pieces: events(
			`{"index":0,"content":"one","tokens":[5],"stop":false}`,
			`{"index":0,"content":" two","tokens":[6],"stop":false}`,
			`{"index":0,"content":"","tokens":[],"stop":true,"stop_type":"limit","tokens_evaluated":1,"tokens_predicted":2}`,
		),
		marker: 2,
		failures: []inBand{
			{"new", `data: {"error":{"code":500,"message":"boom","type":"server_error"}}` + "\n\n", "engine_error"},
			{"old", `error: {"code":503,"message":"Loading model","type":"unavailable_error"}` + "\n\n", "overloaded"},
		},
	},
}

// Each dialect says in its own way that an answer is whole. With that the client
// gets a clean end, and without it none, whatever the engine's connection did.
func TestEveryDialectsFinishMarker(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			g, a, b := pair(t, "")
			both := []*backend{a, b}
			for _, pieces := range [][]string{d.pieces, d.pieces[:d.marker+1]} {
				inTurn(both, plays(d.contentType, pieces, nil))
				r, err := g.fetch(http.DefaultClient, d.path, d.body)
				if want := strings.Join(pieces, ""); r.status != http.StatusOK || r.body != want || err != nil {
					t.Errorf("whole: status %d, %v: %q, want %q", r.status, err, r.body, want)
				}
			}
			g.ended(map[string]int{"served": 2})

			inTurn(both, plays(d.contentType, d.pieces[:d.marker], nil))
			r, err := g.fetch(http.DefaultClient, d.path, d.body)
			if want := strings.Join(d.pieces[:d.marker], ""); r.status != http.StatusOK || r.body != want || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("without its end: status %d, %v: %q, want %q and no clean end", r.status, err, r.body, want)
			}
			g.ended(map[string]int{"served": 2, "truncated": 1})
			if n := hits(a, b); n != 3 {
				t.Errorf("%d requests reached the servers, want 3", n)
			}
		})
	}
}

// A server says in a 200 that there will be no answer. The client gets another
// server's, and nothing of the first.
func TestEveryDialectsErrorInPlaceOfAnAnswer(t *testing.T) {
	for _, d := range dialects {
		for _, f := range d.failures {
			t.Run(d.name+"/"+f.name, func(t *testing.T) {
				g, a, b := pair(t, "")
				inTurn([]*backend{a, b}, plays(d.contentType, []string{f.text}, nil), plays(d.contentType, d.pieces, nil))
				r, err := g.fetch(http.DefaultClient, d.path, d.body)
				if want := strings.Join(d.pieces, ""); r.status != http.StatusOK || r.body != want || err != nil {
					t.Errorf("status %d, %v: %q, want %q", r.status, err, r.body, want)
				}
				if a.count() != 1 || b.count() != 1 {
					t.Errorf("the servers were asked %d and %d times, want once each", a.count(), b.count())
				}
				if got := r.header.Get("X-LLM-Attempts"); got != "2" {
					t.Errorf("X-LLM-Attempts is %q, want 2", got)
				}
				g.ended(map[string]int{f.outcome: 1, "served": 1})
			})
		}
	}
}

// So it is with an answer that ends before it has said anything, and with one
// that is in pieces as small as they can be.
func TestEveryDialectsEmptyAnswer(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			g, a, b := pair(t, "")
			want := strings.Join(d.pieces, "")
			inTurn([]*backend{a, b}, plays(d.contentType, nil, nil), plays(d.contentType, slices.Collect(bytewise(want)), nil))
			r, err := g.fetch(http.DefaultClient, d.path, d.body)
			if r.status != http.StatusOK || r.body != want || err != nil {
				t.Errorf("status %d, %v: %q, want %q", r.status, err, r.body, want)
			}
			if a.count() != 1 || b.count() != 1 {
				t.Errorf("the servers were asked %d and %d times, want once each", a.count(), b.count())
			}
			g.ended(map[string]int{"engine_error": 1, "served": 1})
		})
	}
}

// bytewise is the text in pieces of one byte.
func bytewise(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range len(text) {
			if !yield(text[i : i+1]) {
				return
			}
		}
	}
}
