package e2e

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
)

// With "orca on" servers are asked for their load in the head of their answers.
// One that says that it is busy is left at once, with no metrics page to read. The
// client sees nothing of it. With "orca off" nobody asks.
func TestLoadInTheHeadOfAnswers(t *testing.T) {
	for _, option := range []string{"on", "off"} {
		t.Run(option, func(t *testing.T) {
			a, b := newBackend(t), newBackend(t)
			g := start(t, fmt.Sprintf("llm_proxy %s %s {\nengine none\nscrape_interval 30m\nstale_after 1h\n%sorca %s\n}\n", a.addr(), b.addr(), named(a, b), option))
			on := option == "on"
			var busy atomic.Bool
			tell := func(w http.ResponseWriter, r *http.Request, body []byte) {
				if asked := r.Header.Get("Endpoint-Load-Metrics-Format") != ""; asked != on {
					t.Errorf("asked for load: %v", asked)
				}
				waiting := 0
				if busy.Load() {
					waiting = 40
				}
				if on {
					w.Header().Set("Endpoint-Load-Metrics", fmt.Sprintf("TEXT named_metrics.num_requests_waiting=%d, named_metrics.kv_cache_usage_perc=0.5", waiting))
				}
				telling(unsaid)(w, r, body)
			}
			a.answers(tell)
			b.answers(tell)
			for i := 0; a.count() == 0 || b.count() == 0; i++ {
				g.post(chat(false, "", fmt.Sprintf("%d asks until both have answered", i)))
			}

			preamble := prose("at home", 8000)
			home := g.post(chat(false, preamble, "first")).endpoint()
			busy.Store(true)
			if r := g.post(chat(false, preamble, "second")); r.endpoint() != home || r.decision() != "warm" {
				t.Fatalf("went to %s (%s), want the warm %s", r.endpoint(), r.decision(), home)
			}
			r := g.post(chat(false, preamble, "third"))
			if moved := r.endpoint() != home; moved != on {
				t.Errorf("went to %s (%s); the server that says it is busy is %s", r.endpoint(), r.decision(), home)
			}
			if row := g.endpoint(home); on && (*row.Waiting != 40 || *row.KVUsage != 0.5) {
				t.Errorf("the pool shows %v waiting and %v of the KV memory, want what the answer said", *row.Waiting, *row.KVUsage)
			}
			if told := r.header.Values("Endpoint-Load-Metrics"); len(told) > 0 {
				t.Errorf("the client sees %q", told)
			}
		})
	}
}
