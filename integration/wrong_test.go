package integration

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The tests that break servers look for what a gateway must never do, and a good
// gateway does none of it. So that they would see it, here is all of it.
func TestWrongAnswersAreSeen(t *testing.T) {
	const (
		first  = `data: {"id": "1", "model": "sim-a", "choices": [{"delta": {"role": "assistant", "content": ""}}]}` + "\n\n"
		one    = `data: {"id": "1", "model": "sim-a", "choices": [{"delta": {"content": "one "}}]}` + "\n\n"
		two    = `data: {"id": "1", "model": "sim-a", "choices": [{"delta": {"content": "two"}}]}` + "\n\n"
		finish = `data: {"id": "1", "model": "sim-a", "choices": [{"delta": {}, "finish_reason": "stop"}]}` + "\n\n"
		done   = "data: [DONE]\n\n"
	)
	ofB := strings.NewReplacer(`"1"`, `"2"`, "sim-a", "sim-b")
	cases := []struct {
		name, stream string
		abort        bool   // the connection breaks after it
		wrong        string // part of what is found; empty for nothing
	}{
		{name: "whole", stream: first + one + two + finish + done},
		{name: "cut", stream: first + one, abort: true},
		{name: "cut within an event", stream: first + one + two[:20], abort: true},
		{name: "cut with a clean end", stream: first + one, wrong: "looks complete"},
		{name: "cut and called done", stream: first + one + done, wrong: "looks complete"},
		{name: "finished and broken off", stream: first + one + two + finish, abort: true, wrong: "looks complete"},
		{name: "nothing before a break", stream: first, abort: true, wrong: "before the first token"},
		{name: "an event missing", stream: first + two + finish + done, wrong: `"two" instead of "one two"`},
		{name: "an event twice and cut", stream: one + one, abort: true, wrong: "no beginning"},
		{name: "goes on with another's", stream: first + one + ofB.Replace(two+finish) + done, wrong: "several answers"},
		{name: "of the other", stream: ofB.Replace(first + one + two + finish + done), wrong: `bytes of "sim-b"`},
		{name: "an error in the stream", stream: one + `data: {"error": {"message": "it broke"}}` + "\n\n", wrong: "no simulator wrote"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-LLM-Endpoint", "a")
				_, _ = io.WriteString(w, c.stream)
				if c.abort {
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
			}))
			defer server.Close()
			a := listen(t.Context(), server.Listener.Addr().String(), "one two", nil)
			if got := a.wrong(); c.wrong == "" && got != "" || !strings.Contains(got, c.wrong) {
				t.Errorf("the answer %q, want %q", got, c.wrong)
			}
		})
	}

	refused := httptest.NewServer(http.NotFoundHandler())
	defer refused.Close()
	if got := listen(t.Context(), refused.Listener.Addr().String(), "one two", nil).wrong(); !strings.Contains(got, "status 404") {
		t.Errorf("an answer 404 %q, want that it is none", got)
	}
}
