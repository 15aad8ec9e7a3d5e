package answer

import (
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// Overload is no sickness: an engine that says in a stream that it has too much
// to do must be told from one that is broken, in whatever words.
func TestWhatAnErrorStandsFor(t *testing.T) {
	for _, test := range []struct {
		name, data string
		status     int
		overloaded bool
	}{
		{"no details", `{"error":{}}`, 500, false},
		{"SGLang's full queue", `{"error":{"object":"error","message":"The request queue is full.","type":"SERVICE_UNAVAILABLE","param":null,"code":503}}`, 503, true},
		{"a code in quotes", `{"error":{"code":"429"}}`, 429, true},
		{"a code in words", `{"error":{"code":"rate_limit_exceeded"}}`, 429, true},
		{"Dynamo's", `{"error":{"code":529,"message":"all workers busy"}}`, 529, true},
		{"vLLM's", `{"error":{"message":"boom","type":"InternalServerError","param":null,"code":500}}`, 500, false},
		{"vLLM's full queue without a code", `{"error":{"message":"too many","type":"Service Unavailable","code":null}}`, 503, true},
		{"old vLLM's, flat", `{"object":"error","message":"boom","type":"BadRequestError","param":null,"code":400}`, 400, false},
		{"TGI's overload", `{"error":{"message":"Model is overloaded","http_status_code":422}}`, 429, true},
		{"TGI's failure", `{"error":{"message":"Request failed during generation: Server error: x","http_status_code":422}}`, 500, false},
		{"TGI's validation", `{"error":{"message":"Input validation error: x","http_status_code":422}}`, 422, false},
		{"TGI's other errors", `{"error":{"message":"Something else","http_status_code":422}}`, 422, false},
		{"llama.cpp, loading", `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, 503, true},
		{"a gateway's overload", `{"error":{"message":"InternalServerError: AnthropicException - Overloaded","type":null,"code":"500"}}`, 500, true},
		{"a type alone", `{"error":{"type":"overloaded_error"}}`, 529, true},
		{"a message alone", `{"error":"Server busy"}`, 503, true},
		{"a code out of range", `{"error":{"code":-32000,"message":"boom"}}`, 500, false},
		{"a code of success", `{"error":{"code":200,"message":"boom"}}`, 500, false},
		{"a client's words", `{"error":{"code":400,"message":"no tool is named overloaded"}}`, 400, false},
		{"a client's words, type last", `{"error":{"message":"no tool is named overloaded","type":"invalid_request_error"}}`, 400, false},
		{"a client's words under another type", `{"error":{"message":"unknown tool 'rate limit'","type":"value_error"}}`, 500, false},
		{"words under a type that says nothing", `{"error":{"message":"server busy","type":"server_error"}}`, 503, true},
		{"another name for it", `{"error":{"message":"try later","type":"engine_overloaded_error"}}`, 503, true},
		{"OpenAI's limit", `{"error":{"message":"Rate limit reached for requests","type":"requests","param":null,"code":null}}`, 429, true},
		{"words far behind", `{"error":{"message":"` + strings.Repeat("x", maxText) + `overloaded"}}`, 500, false},
		{"an error within the error", `{"error":{"error":{"code":503}}}`, 503, true},
		{"a list of errors", `[{"error":{"code":503}}]`, 503, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := told().with(1, false).failed(test.status, test.overloaded)
			if got := read(t, request.Chat, typeEvents, sse(hello, test.data)); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
	for name, data := range map[string]string{
		"none":                          `{"error":null}`,
		"a list":                        `{"error":[{"code":503}]}`,
		"one of somebody else":          `{"choices":[{"delta":{"error":{"code":503}}}]}`,
		"a code and words without it":   `{"code":503,"message":"overloaded","type":"overloaded_error"}`,
		"a type of our own in the root": `{"type":"error"}`,
	} {
		if got := read(t, request.Chat, typeEvents, sse(data)); got.Failed || got.Status != 0 || got.Overloaded {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The first error is the one to act on; what follows it is its consequence.
func TestTheFirstErrorCounts(t *testing.T) {
	first, second := `{"error":{"code":503,"message":"full"}}`, `{"error":{"code":400,"message":"gone"}}`
	for stream, want := range map[string]Facts{
		sse(first, second):       told().failed(503, true),
		sse(second, first):       told().failed(400, false),
		sse(second, hello):       told().with(1, false).failed(400, false),
		sse(second, `{"error`):   told().failed(400, false),
		sse(first) + "data: {\"": told().failed(503, true),
	} {
		if got := read(t, request.Chat, typeEvents, stream); got != want {
			t.Errorf("%q: got %+v, want %+v", stream, got, want)
		}
	}
}
