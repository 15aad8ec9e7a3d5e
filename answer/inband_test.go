package answer

import (
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// A client that got nothing yet is given the engine's error as an answer of its
// own, in the form that it would have had as one.
func TestAnErrorIsTakenOutOfAStream(t *testing.T) {
	const (
		nested = `{"error":{"message":"The request queue is full.","type":"SERVICE_UNAVAILABLE","param":null,"code":503}}`
		old    = `{"code":500,"message":"no slot","type":"server_error"}`
	)
	for _, test := range []struct{ name, api, head, want string }{
		{"OpenAI", request.Chat, sse(nested, "[DONE]"), nested},
		{"with spaces and more", request.Chat, sse(`{ "id" : 1, "error" : {"code":503} }`), `{ "id" : 1, "error" : {"code":503} }`},
		{"behind a role", request.Chat, ": ping\n\n" + sse(role, nested), nested},
		{"cut behind it", request.Chat, sse(nested) + "data: {\"cho", nested},
		{"without a blank line", request.Chat, "data: " + nested, nested},
		{"CRLF", request.Chat, "data: " + nested + "\r\n\r\n", nested},
		{"in two lines", request.Chat, "data: {\"error\":\ndata: {\"code\":503}}\n\n", "{\"error\":\n {\"code\":503}}"},
		{"names twice", request.Chat, sse(`{"error":{"code":503,"code":503}}`), `{"error":{"code":503,"code":503}}`},
		{"flat", request.Chat, sse(`{"object":"error","message":"x","code":400}`), `{"error":{"object":"error","message":"x","code":400}}`},
		{"llama.cpp, old", request.Completion, "error: " + old + "\n\n", `{"error":` + old + `}`},
		{"llama.cpp, old and nested", request.Completion, "error: " + nested + "\n\n", nested},
		{"Anthropic", request.Messages, named(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
		{"Responses, failed", request.Responses, named(`{"type":"response.created","response":{"error":null}}`, `{"type":"response.failed","response":{"error":{"code":"server_error"}}}`), `{"error":{"code":"server_error"}}`},
		{"Responses, an event", request.Responses, named(`{"type":"error","code":"server_error","message":"x"}`), `{"error":{"type":"error","code":"server_error","message":"x"}}`},
		{"TGI", request.GenerateStream, "data:" + `{"error":"Model is overloaded","error_type":"overloaded"}` + "\n\n", `{"error":"Model is overloaded","error_type":"overloaded"}`},
		{"Ollama", request.OllamaChat, ndjson(`{"message":{"content":""}}`, `{"error":"server busy"}`), `{"error":"server busy"}`},
		{"whole", request.Chat, "{\n \"error\": {\"code\": 503}\n}\n", "{\n \"error\": {\"code\": 503}\n}"},
		{"a batch", request.Generate, `[{"text":""},{"error":{"code":503}}]`, `{"error":{"code":503}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(InBand([]byte(test.head))); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			r := reading{api: test.api, answer: test.head}
			if !read(t, test.api, r.contentType(), test.head).Failed {
				t.Error("the reader sees no error in it")
			}
		})
	}
	for _, head := range []string{
		"", "\n", "data: ", "[DONE]", sse(role, hello, "[DONE]"), sse(`{"error":null}`), sse(`{"error":""}`),
		`{"error":`, `["error"]`, `"error"`, "event: error\n\n", sse(`{"choices":[{"error":{}}]}`), "<html>error</html>",
	} {
		if got := InBand([]byte(head)); got != nil {
			t.Errorf("%q in %q, want nothing", got, head)
		}
	}
}
