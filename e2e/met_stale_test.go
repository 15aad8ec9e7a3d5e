package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A server whose last good page said that it is idle, and which has not shown
// one since, is not taken for idle: it gets a fair share at most, and what we
// hold there counts.
func TestFrozenMetricsAttractNobody(t *testing.T) {
	for what, body := range map[string]func(int) string{
		"different prompts":     distinct,
		"one prompt over again": func(int) string { return distinct(1) },
	} {
		t.Run(what, func(t *testing.T) {
			a, b := newBackend(t), newBackend(t)
			g := start(t, fmt.Sprintf("llm_proxy %s %s {\nscrape_interval 20ms\nstale_after 200ms\nendpoint %s {\nname a\nmax_concurrent 12\n}\nendpoint %s {\nname b\n}\n}\n",
				a.addr(), b.addr(), a.addr(), b.addr()))
			b.set(load{running: 2})
			a.seen()
			b.seen()
			hang := make(chan struct{})
			hold := make(chan struct{})
			var stop sync.Once
			end := func() { stop.Do(func() { close(hang); close(hold) }) }
			defer end()
			a.shows(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-hang:
				case <-r.Context().Done():
				}
			})
			// It answers late, far later than the other.
			a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
				select {
				case <-hold:
				case <-r.Context().Done():
				}
				answer(w, r, body)
			})
			eventually(t, "the numbers to be stale", func() bool { return g.endpoint("a").Blind })
			row := g.endpoint("a")
			if row.State != "up" || row.Running != nil || row.ScrapeAgeMillis == nil || *row.ScrapeAgeMillis < 200 || !strings.Contains(row.Reason, "timeout") {
				t.Errorf("row is %+v, want up, without numbers, their age and a timeout", row)
			}
			if age := g.metric("caddy_llmlb_scrape_age_seconds", "a"); age < 0.2 {
				t.Errorf("age of the numbers is shown as %v s", age)
			}
			var calls sync.WaitGroup
			for i := range 20 {
				sent := a.count() + b.count()
				calls.Go(func() { g.post(body(i)) })
				eventually(t, "the request to reach a server", func() bool { return a.count()+b.count() > sent })
			}
			if n := a.count(); n > 11 {
				t.Errorf("%d of 20 went to the server with the frozen numbers, want about half at most", n)
			}
			end()
			calls.Wait()
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.maxOpen > 12 {
				t.Errorf("it held %d at once, over its limit", a.maxOpen)
			}
		})
	}
}

// An interval longer than the age at which numbers count for nothing would make
// the pool blind most of the time: it is refused, with both options named.
func TestScrapeIntervalOverStalenessIsRefused(t *testing.T) {
	g := start(t, "respond ok\n")
	for _, options := range []string{"scrape_interval 15s\nstale_after 200ms\n", "scrape_interval 15s\n", "stale_after 200ms\n"} {
		err := g.load("llm_proxy 127.0.0.1:1 {\n" + options + "}\n")
		if err == nil || !strings.Contains(err.Error(), "scrape_interval") || !strings.Contains(err.Error(), "stale_after") {
			t.Errorf("%q: error %v, want one that names scrape_interval and stale_after", options, err)
		}
	}
}
