package e2e

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// hangs is a metrics page that never comes.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// mostGoroutines is the most that run at any time of a second.
func mostGoroutines() (most int) {
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		most = max(most, runtime.NumGoroutine())
	}
	return most
}

// Two servers are well, and eight accept the question for their metrics and never
// answer. The two are asked on time all the while, and what hangs does not pile up.
func TestServersThatHangDelayNobodysScrapes(t *testing.T) {
	const interval, hanging = 100 * time.Millisecond, 8
	list := []*backend{newBackend(t), newBackend(t)}
	upstreams := []string{list[0].addr(), list[1].addr()}
	for range hanging {
		b := newBackend(t)
		b.shows(hangs)
		list, upstreams = append(list, b), append(upstreams, b.addr())
	}
	g := start(t, fmt.Sprintf("llm_proxy %s {\nscrape_interval %v\n%s}\n", strings.Join(upstreams, " "), interval, named(list...)))
	for _, b := range list {
		b.seen()
	}
	scrapes := func(b *backend) int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.scrapes
	}
	before, began := []int{scrapes(list[0]), scrapes(list[1])}, time.Now()
	early := mostGoroutines()
	time.Sleep(4 * time.Second) // in which much could pile up
	late := mostGoroutines()
	took := time.Since(began)
	for i, b := range list[:2] {
		// One after the other, they would be asked once in eight intervals.
		want := float64(took) / float64(interval)
		if n := float64(scrapes(b) - before[i]); n < want/3 || n > want*1.5 {
			t.Errorf("%s was scraped %v times in %v, want about %.0f", nameOf(i), n, took, want)
		}
		if row := g.endpoint(nameOf(i)); row.Running == nil || row.Blind || row.State != "up" {
			t.Errorf("row is %+v, want up, with fresh numbers", row)
		}
	}
	if late > early+10 {
		t.Errorf("up to %d goroutines in the last second, %d in the first", late, early)
	}
	for i := range list[2:] {
		if row := g.endpoint(nameOf(2 + i)); row.State != "up" || row.Running != nil || !strings.HasPrefix(row.Reason, "timeout after ") {
			t.Errorf("row is %+v, want up, without numbers, and a timeout", row)
		}
	}
}

// A metrics page comes byte by byte and never ends, so that no read of it waits
// long. A scrape is given up when its time is over all the same, and the next one
// does not begin before.
func TestAMetricsPageThatDripsIsGivenUp(t *testing.T) {
	const interval = 300 * time.Millisecond
	a := newBackend(t)
	var overlaps, longest atomic.Int64
	alone := make(chan struct{}, 1)
	a.shows(func(w http.ResponseWriter, r *http.Request) {
		// This end hears a little later that the last one was given up.
		select {
		case alone <- struct{}{}:
			defer func() { <-alone }()
		case <-r.Context().Done():
			overlaps.Add(1)
			return
		}
		began := time.Now()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		for page := waitingPage; r.Context().Err() == nil; page = page[1:] + page[:1] {
			io.WriteString(w, page[:1])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(50 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
		longest.Store(max(longest.Load(), int64(time.Since(began))))
	})
	g := start(t, fmt.Sprintf("llm_proxy %s {\nscrape_interval %v\n%s}\n", a.addr(), interval, named(a)))
	a.await("six scrapes", func() bool { return a.scrapes >= 6 })
	if n := overlaps.Load(); n > 0 {
		t.Errorf("%d scrapes began while another one was open", n)
	}
	if d := time.Duration(longest.Load()); d > 10*interval {
		t.Errorf("a scrape took %v, want %v at most", d, interval)
	}
	if row := g.endpoint("a"); row.State != "up" || row.Running != nil || row.Reason != fmt.Sprintf("timeout after %v", interval) {
		t.Errorf("row is %+v, want up, without numbers, and a timeout", row)
	}
	if r := g.post(distinct(1)); r.status != http.StatusOK {
		t.Errorf("status %d while the page drips: %s", r.status, r.body)
	}
}
