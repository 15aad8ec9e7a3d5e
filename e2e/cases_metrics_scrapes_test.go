package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// Scrapes fail for many reasons, and each is counted under its own word, once. The
// age of the numbers goes on meanwhile.
func TestEachFailureOfAScrapeIsCountedByItsReason(t *testing.T) {
	good := "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
	for reason, page := range map[string]func(http.ResponseWriter, *http.Request){
		"status":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"format":  raw("text/html", "<html>timeout</html>"),
		"no_load": raw("text/plain", "process_cpu_seconds_total 1\n"),
		"value":   raw("text/plain", good+"vllm:kv_cache_usage_perc -3\n"),
		"timeout": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"unreachable": func(w http.ResponseWriter, _ *http.Request) {
			says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nvllm:")(w, nil, nil)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			a := newBackend(t)
			a.shows(raw("text/plain", good))
			g := start(t, fmt.Sprintf("llm_proxy %s {\n%sendpoint %s {\nname a\n}\n}\n", a.addr(), strings.Replace(fast, "50ms", "150ms", 1), a.addr()))
			a.seen()
			byReason := func() map[string]float64 {
				counts := make(map[string]float64)
				for _, m := range g.families()["caddy_llmlb_scrape_errors_total"].GetMetric() {
					for _, l := range m.GetLabel() {
						if l.GetName() == "reason" && m.GetCounter().GetValue() > 0 {
							counts[l.GetValue()] = m.GetCounter().GetValue()
						}
					}
				}
				return counts
			}
			if got := byReason(); len(got) > 0 {
				t.Fatalf("counted %v before anything failed", got)
			}
			var failed atomic.Bool
			a.shows(func(w http.ResponseWriter, r *http.Request) {
				if failed.CompareAndSwap(false, true) {
					page(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/plain")
				io.WriteString(w, good)
			})
			a.seen()
			a.seen()
			if got := byReason(); len(got) != 1 || got[reason] != 1 {
				t.Errorf("counted %v, want one by %s", got, reason)
			}
			if age := g.counter("caddy_llmlb_scrape_age_seconds", "endpoint", "a"); age < 0 || age > 20 {
				t.Errorf("the numbers are %v s old", age)
			}
		})
	}
}
