package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// unsaid is the share that telling leaves out.
const unsaid = -1

// telling answers with usage: how long the prompt was, as if four bytes made a
// token, and what share of it was found in the cache.
func telling(share float64) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, body []byte) {
		tokens := len(body) / 4
		usage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":3,"total_tokens":%d`, tokens, tokens+3)
		if share != unsaid {
			usage += fmt.Sprintf(`,"prompt_tokens_details":{"cached_tokens":%d}`, int(share*float64(tokens)))
		}
		usage += "}"
		if !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],`+usage+`}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range answerEvents {
			if e == "[DONE]" {
				send(w, `{"choices":[],`+usage+`}`)
			}
			send(w, e)
		}
	}
}

// The engine's own word on what it found in its cache is believed: a prefix that
// it says it has computed again is not counted on any longer, one that it found
// is.
func TestWhatTheEngineFoundInItsCacheCounts(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, tc := range []struct {
			share float64
			next  string
		}{{0, "cold"}, {0.9, "warm"}} {
			t.Run(fmt.Sprintf("stream %v, found %v", stream, tc.share), func(t *testing.T) {
				g, a, b := pair(t, "")
				preamble := prose("the same every time", 8000)
				ask := func(share float64, question string) reply {
					a.answers(telling(share))
					b.answers(telling(share))
					r := g.post(chat(stream, preamble, question))
					if r.status != http.StatusOK {
						t.Fatalf("status %d: %s", r.status, r.body)
					}
					g.idle(t)
					return r
				}
				if r := ask(0, "first"); r.decision() != "cold" {
					t.Fatalf("decision %q for a new prompt", r.decision())
				}
				if r := ask(tc.share, "second"); r.decision() != "warm" {
					t.Fatalf("decision %q for a prompt that was just computed", r.decision())
				}
				r := ask(tc.share, "third")
				if matched := r.header.Get("X-LLM-Matched-Tokens"); r.decision() != tc.next || (matched == "0") != (tc.share == 0) {
					t.Errorf("decision %q with %s tokens matched, want %s", r.decision(), matched, tc.next)
				}
			})
		}
	}
}
