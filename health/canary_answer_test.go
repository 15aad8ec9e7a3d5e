package health

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// What the answers of engines to a canary show.
func TestWhatACanaryShows(t *testing.T) {
	const passed, failed, unsuitable = llmlb.CheckPassed, llmlb.CheckFailed, llmlb.CheckUnsuitable
	const end = `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`
	whole := func(s string) func(*http.Request) (*http.Response, error) { return servesAs("application/json", s) }
	for _, c := range []struct {
		what   string
		answer func(*http.Request) (*http.Response, error)
		expect string
		want   llmlb.CheckVerdict
		why    reason
	}{
		{"a token", events(content("OK"), end, "[DONE]"), "", passed, ""},
		{"what was expected", events(content("the answer "), content("is 42"), end, "[DONE]"), "is 42", passed, ""},
		{"something else", events(content("!!!!!!"), end, "[DONE]"), "42", failed, "its answer is not the one expected"},
		{"the same in small letters", events(content("ok"), end, "[DONE]"), "OK", failed, "its answer is not the one expected"},
		{"a model that thinks", events(`{"choices":[{"index":0,"delta":{"reasoning_content":"Let me"}}]}`, end, "[DONE]"), "", passed, ""},
		{"its thoughts count as text", events(`{"choices":[{"index":0,"delta":{"reasoning":"2+2=4"}}]}`, end, "[DONE]"), "4", passed, ""},
		{"thoughts that are not shown", events(`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"length"}]}`, "[DONE]"), "", passed, ""},
		{"the same in one piece", whole(`{"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"length"}],"usage":{"completion_tokens":1}}`), "", passed, ""},
		{"in one piece", whole(`{"choices":[{"index":0,"message":{"content":"OK"},"finish_reason":"stop"}]}`), "OK", passed, ""},
		{"a tool call", events(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}`, end), "", passed, ""},
		{"no end mark, but a finish", events(content("OK"), end), "", passed, ""},

		{"nothing", events("[DONE]"), "", failed, "nothing generated"},
		{"an empty body", servesAs("text/event-stream", ""), "", failed, "nothing generated"},
		{"JSON of another kind", whole(`{"status":"ok"}`), "", failed, "nothing generated"},
		{"no JSON", whole(`OK`), "", failed, "nothing generated"},
		{"a page", servesAs("text/html; charset=utf-8", "<html>"), "", failed, "no answer but text/html"},
		{"a break", events(content("OK")), "", failed, "its answer breaks off"},
		{"500", servesStatus(500), "", failed, "500"},
		{"an error in a stream", events(`{"error":{"message":"CUDA error","type":"InternalServerError","code":500}}`), "", failed, "error in its answer: 500"},
		{"64 KiB of comments", servesAs("text/event-stream", strings.Repeat(": wait\n\n", 20_000)), "", failed, "no token in 64 KiB"},

		{"no chats and no completions", servesStatus(404), "", unsuitable, "404"},
		{"too few tokens", says(400, `{"error":{"message":"max_tokens reached"}}`), "", unsuitable, "400"},
		{"an embedding model", says(400, `{"error":{"message":"does not support generate"}}`), "", unsuitable, "400"},
		{"a wrong key", servesStatus(401), "", unsuitable, "401: check upstream_auth"},
		{"not built in", servesStatus(501), "", unsuitable, "501"},
		{"elsewhere", redirects("https://login.example.com/"), "", unsuitable, "redirect to another place"},
		{"a request that is no good, told late", events(`{"error":{"message":"bad","code":400}}`), "", unsuitable, "error in its answer: 400"},
	} {
		t.Run(c.what, func(t *testing.T) {
			net := newServers()
			net.chat("a:1", c.answer)
			cn := &canary{loop: &loop{endpoint: endpointAt(t, "a:1")}}
			o := tempted(llmlb.Canary{Model: "m", Expect: c.expect})
			got := cn.try(t.Context(), settings(t, net, "a:1"), &o)
			if !got.tells || got.Verdict != c.want || got.Reason != string(c.why) {
				t.Errorf("%v for %q, want %v for %q", got.Verdict, got.Reason, c.want, c.why)
			}
			if got.Verdict == passed && got.TTFT <= 0 {
				t.Error("no time to first token")
			}
			if n := net.mostOpen("canary of a:1"); net.stillOpen("canary of a:1") != 0 || n != 1 {
				t.Errorf("%d exchanges left open, %d at once", net.stillOpen("canary of a:1"), n)
			}
		})
	}
}

// A server that says that it has too much to do has told nothing.
func TestOverloadTellsACanaryNothing(t *testing.T) {
	for what, answer := range map[string]func(*http.Request) (*http.Response, error){
		"429": servesStatus(429), "503": servesStatus(503), "529": servesStatus(529),
		"in a stream": events(`{"error":{"object":"error","message":"The request queue is full.","type":"SERVICE_UNAVAILABLE","param":null,"code":503}}`, "[DONE]"),
	} {
		net := newServers()
		net.chat("a:1", answer)
		cn := &canary{loop: &loop{endpoint: endpointAt(t, "a:1")}}
		o := tempted(llmlb.Canary{Model: "m"})
		if got := cn.try(t.Context(), settings(t, net, "a:1"), &o); got.tells {
			t.Errorf("%s: %v for %q", what, got.Verdict, got.Reason)
		}
	}
}

func endpointAt(t *testing.T, address string) *llmlb.Endpoint {
	t.Helper()
	s := &llmlb.Settings{Pool: t.Name(), Members: []llmlb.Member{{Address: address}}}
	if err := llmlb.NewPool(t.Name()).Bind(s); err != nil {
		t.Fatal(err)
	}
	return s.Members[0].Endpoint
}
