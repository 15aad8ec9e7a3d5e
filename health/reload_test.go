package health

import (
	"context"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Thirty reloads leave as many scrapes and goroutines as before, cancel no
// scrape, and the newest settings are those in use.
func TestReloadsAddNoLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		cancelled := make(chan struct{}, 100)
		net.set("a:1", serves(load(1, 0, 0.1)))
		// The slow one is in the middle of a scrape most of the time.
		net.set("b:1", func(req *http.Request) (*http.Response, error) {
			select {
			case <-time.After(900 * time.Millisecond):
				return serves(load(2, 0, 0.1))(req)
			case <-req.Context().Done():
				cancelled <- struct{}{}
				return nil, req.Context().Err()
			}
		})
		c := newConfig(t, nil)
		h := c.watch(t, settings(t, net, "a:1", "b:1"))
		c.start(t)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		from, before := time.Now(), runtime.NumGoroutine()
		time.Sleep(10 * time.Second)
		rate := net.count("a:1", from)

		endpoint := h.Pool().Endpoints()[0]
		from = time.Now()
		for range 30 {
			next := newConfig(t, nil)
			h = next.watch(t, settings(t, net, "a:1", "b:1"))
			next.start(t)
			c.end(t)
			c = next
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := net.count("a:1", from); n < 2 || n > 4 {
			t.Errorf("%d scrapes during 3 s of reloads, want 3", n)
		}
		if h.Pool().Endpoints()[0] != endpoint {
			t.Error("the endpoint's state was not kept")
		}
		if len(cancelled) > 0 {
			t.Error("a reload cancelled a scrape in flight")
		}
		from = time.Now()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := net.count("a:1", from); n != rate {
			t.Errorf("%d scrapes in 10 s after 30 reloads, %d before", n, rate)
		}
		if after := runtime.NumGoroutine(); after > before+2 {
			t.Errorf("goroutines rose from %d to %d over 30 reloads", before, after)
		}
		if n := net.mostOpen("b:1"); n != 1 {
			t.Errorf("%d scrapes of one server at once", n)
		}

		faster := newConfig(t, nil)
		s := settings(t, net, "a:1", "b:1")
		s.Scrape.Interval = 200 * time.Millisecond
		faster.watch(t, s)
		faster.start(t)
		c.end(t)
		from = time.Now()
		time.Sleep(10 * time.Second)
		if n := net.count("a:1", from); n < 49 || n > 51 {
			t.Errorf("%d scrapes in 10 s at an interval of 200 ms, want 50", n)
		}
		faster.end(t)
		synctest.Wait()
		from = time.Now()
		time.Sleep(10 * time.Second)
		if n := net.count("a:1", from); n != 0 {
			t.Errorf("%d scrapes after the last configuration ended", n)
		}
	})
}

// Stopping the last configuration ends a scrape in flight and waits for it.
func TestStopEndsTheScrapeInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		var open atomic.Int32 // the scrape, and a check beside it
		net.set("a:1", func(req *http.Request) (*http.Response, error) {
			open.Add(1)
			<-req.Context().Done()
			time.Sleep(time.Millisecond) // whoever does not wait is seen
			open.Add(-1)
			return nil, context.Canceled
		})
		s := settings(t, net, "a:1")
		s.Scrape.Interval = 8 * time.Second
		c := newConfig(t, nil)
		h := c.watch(t, s)
		c.start(t)
		for net.count("a:1", time.Time{}) == 0 {
			time.Sleep(time.Second)
		}
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		if n := open.Load(); n > 0 {
			t.Errorf("Stop returned while %d exchanges were open", n)
		}
		if r := row(t, h, "a:1"); r.Reason != "" || r.State != "up" {
			t.Errorf("our own end was taken for the server's: %+v", r)
		}
		c.end(t)
	})
}

// With engine none nothing is scraped, until a reload says otherwise.
func TestEngineNoneScrapesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(0, 0, 0)))
		s := settings(t, net, "a:1")
		s.Scrape.Engine = none
		c := newConfig(t, nil)
		c.watch(t, s)
		c.start(t)
		time.Sleep(time.Minute)
		if n := net.count("a:1", time.Time{}); n != 0 {
			t.Errorf("%d scrapes", n)
		}
		next := newConfig(t, nil)
		next.watch(t, settings(t, net, "a:1"))
		next.start(t)
		c.end(t)
		time.Sleep(10 * time.Second)
		if n := net.count("a:1", time.Time{}); n < 9 {
			t.Errorf("%d scrapes in 10 s after the reload", n)
		}
		next.end(t)
	})
}

// An endpoint that left the configuration and only finishes its streams is not
// scraped with credentials that were not meant for it.
func TestRemovedEndpointIsNotScraped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(0, 0, 0)))
		net.set("b:1", serves(load(0, 0, 0)))
		c := newConfig(t, nil)
		h := c.watch(t, settings(t, net, "a:1"))
		c.start(t)
		time.Sleep(5 * time.Second)
		p := h.Pool()
		p.Lock()
		lease := p.Reserve(h.Settings().Members[0].Endpoint, time.Now(), llmlb.Work{Uncached: 100, Output: 100})
		p.Unlock()
		next := newConfig(t, nil)
		h = next.watch(t, settings(t, net, "b:1"))
		next.start(t)
		c.end(t)
		synctest.Wait()
		from := time.Now()
		time.Sleep(5 * time.Second)
		if n := net.count("a:1", from); n != 0 {
			t.Errorf("%d scrapes of an endpoint that left", n)
		}
		if r := row(t, h, "a:1"); r.Calls != 1 {
			t.Errorf("row of the one that left is %+v, want its call", r)
		}
		lease.End(time.Now())
		next.end(t)
	})
}
