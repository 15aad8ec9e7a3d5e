package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"
)

// visits counts what a server is asked for, by path: by the gateway alone, if
// nobody sends anything.
type visits struct {
	mu sync.Mutex
	by map[string]int
}

// countVisits sees everything that arrives at the server from now on.
func countVisits(b *backend) *visits {
	v := &visits{by: make(map[string]int)}
	b.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		v.by[r.URL.Path]++
		v.mu.Unlock()
		b.ServeHTTP(w, r)
	})
	return v
}

func (v *visits) now() map[string]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.by)
}

// during returns how often each path was asked for in a while, and how long that
// while was.
func (v *visits) during(d time.Duration) (map[string]int, time.Duration) {
	before, began := v.now(), time.Now()
	time.Sleep(d)
	after, took := v.now(), time.Since(began)
	for path, n := range before {
		after[path] -= n
	}
	return after, took
}

// Thirty reloads, each of which changes the pool, leave a server asked as often as
// before, for its metrics and for everything else. Neither goroutines nor memory
// grow.
func TestReloadsAddNothing(t *testing.T) {
	const interval, reloads = 50 * time.Millisecond, 30
	a, b := newBackend(t), newBackend(t)
	for _, s := range []*backend{a, b} {
		s.models = `{"object":"list","data":[{"id":"m","object":"model"}]}`
	}
	asked := countVisits(a)
	site := func(i int) string {
		return fmt.Sprintf("respond /version %d\nllm_proxy %s %s {\nscrape_interval %v\nstale_after 2s\n%saffinity 0.%d\nspill_waiting %d\nqueue %d\n}\n",
			i, a.addr(), b.addr(), interval, named(a, b), 6+i%3, 2+i%5, 16+i)
	}
	g := start(t, site(0))
	// What is made once has been made.
	for i := range 5 {
		if err := g.load(site(i + 1)); err != nil {
			t.Fatal(err)
		}
		if r, err := g.ask(http.DefaultClient, distinct(i)); err != nil || r.status != http.StatusOK {
			t.Fatalf("status %d, %v", r.status, err)
		}
	}
	a.seen()
	before, _ := asked.during(2 * time.Second)
	goroutines, memory := settled(t), live()

	for i := range reloads {
		if err := g.load(site(i + 6)); err != nil {
			t.Fatal(err)
		}
	}
	a.seen()
	if got := settled(t); got > goroutines+10 || got < goroutines-10 {
		t.Errorf("%d goroutines after %d reloads, %d before", got, reloads, goroutines)
	}
	if grown := live() - memory; grown > 6<<20 {
		t.Errorf("%d MiB more of memory after %d reloads", grown>>20, reloads)
	} else {
		t.Logf("%d KiB more of memory", grown>>10)
	}
	after, took := asked.during(2 * time.Second)
	t.Logf("asked for %v before, %v after", before, after)
	// A loop asks once in each interval at most, however fast the machine is.
	if n, most := after["/metrics"], int(took/interval)+2; n > most || n == 0 {
		t.Errorf("%d scrapes in %v, want up to %d: one loop's", n, took, most)
	}
	for path, n := range after {
		if path != "/metrics" && n > 3*before[path]+5 {
			t.Errorf("%s was asked for %d times, %d times before", path, n, before[path])
		}
	}
}

// A server is taken out of the configuration while a stream runs there. The stream
// goes on, and the server is asked for nothing any more: no metrics, no list of
// models, no check. When the stream is over nothing is left of it in the metrics.
func TestARemovedServerIsAskedForNothing(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	for _, s := range []*backend{a, b} {
		s.models = `{"object":"list","data":[{"id":"m","object":"model"}]}`
	}
	asked := countVisits(b)
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s%s}\n", a.addr(), b.addr(), fast, patient, named(a, b)))
	open := gate(b)
	defer open()
	onlyFree(b, a, b)
	finish := holdStream(g, chat(true, "", "runs on"))
	if n := b.count(); n != 1 {
		t.Fatalf("%d requests at the server, want the stream", n)
	}
	allFree(a, b)
	if g.metric("caddy_llmlb_scrape_age_seconds", "b") < 0 {
		t.Fatal("the server has no series, so that none could stay")
	}

	if err := g.load(fmt.Sprintf("llm_proxy %s {\n%s%sendpoint %s {\nname a\n}\n}\n", a.addr(), fast, patient, a.addr())); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, "the removed server to be left alone", func() bool {
		before := asked.now()
		for range 5 {
			a.seen()
		}
		return maps.Equal(asked.now(), before)
	})
	t.Logf("left alone for ten scrapes of the other's %v after the reload", time.Since(began))
	for i := range 20 {
		if r, err := g.ask(http.DefaultClient, distinct(i)); err != nil || r.status != http.StatusOK || r.endpoint() != "a" {
			t.Errorf("status %d from %q, %v", r.status, r.endpoint(), err)
		}
	}
	if n := b.count(); n != 1 {
		t.Errorf("%d requests reached the removed server, want the stream alone", n)
	}
	open()
	finish()
	eventually(t, "its series to be gone", func() bool { return !showsEndpoint(g, "b") })
	if rows := g.pools()[0].Endpoints; len(rows) != 1 || rows[0].Name != "a" {
		t.Errorf("the pool shows %+v, want the server that is left", rows)
	}
}

// showsEndpoint reports whether any series of the gateway's has the endpoint.
func showsEndpoint(g *gateway, name string) bool {
	g.t.Helper()
	for _, family := range g.families() {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "endpoint" && l.GetValue() == name {
					return true
				}
			}
		}
	}
	return false
}
