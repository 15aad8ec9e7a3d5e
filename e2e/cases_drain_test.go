package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// queued is how many requests wait in the gateway's first pool.
func (g *gateway) queued() int {
	g.t.Helper()
	return g.pools()[0].Queue.Calls
}

// later sends a request in the background; the answer comes when it comes.
func (g *gateway) later(t *testing.T, body string) <-chan reply {
	t.Helper()
	done := make(chan reply, 1)
	go func() {
		r, err := g.ask(http.DefaultClient, body)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	return done
}

// Three streams run on one server, one on another, and a third server is down: two
// more requests wait. A reload keeps their place, and both are served as soon as
// there is room, by servers that are up.
func TestARequestThatWaitsOutlivesAReload(t *testing.T) {
	list := []*backend{newBackend(t), newBackend(t), newBackend(t)}
	a, b, c := list[0], list[1], list[2]
	site := func(affinity string) string {
		return fmt.Sprintf("llm_proxy %s %s %s {\n%s%saffinity %s\nendpoint %s {\nname a\nmax_concurrent 3\n}\nendpoint %s {\nname b\nmax_concurrent 1\n}\nendpoint %s {\nname c\n}\n}\n",
			a.addr(), b.addr(), c.addr(), fast, patient, affinity, a.addr(), b.addr(), c.addr())
	}
	g := start(t, site("0.8"))
	openA, openB := gate(a), gate(b)
	defer openA()
	defer openB()
	c.goDown()
	eventually(t, "the server to be seen as down", func() bool { return g.endpoint("c").State == "down" })
	var running []func()
	for i := range 4 {
		running = append(running, holdStream(g, chat(true, "", fmt.Sprint("running ", i))))
	}
	waiting := []<-chan reply{
		g.later(t, chat(true, "", "waits first")),
		g.later(t, chat(true, "", "waits second")),
	}
	eventually(t, "two requests to wait", func() bool { return g.queued() == 2 })

	if err := g.load(site("0.7")); err != nil {
		t.Fatal(err)
	}
	if n := g.queued(); n != 2 {
		t.Errorf("%d requests wait right after the reload, want 2", n)
	}
	if n := g.endpoint("a").Calls + g.endpoint("b").Calls; n != 4 {
		t.Errorf("%d calls are counted right after the reload, want 4", n)
	}
	if n := a.count() + b.count(); n != 4 {
		t.Errorf("%d requests are at the servers, want the 4 that run", n)
	}
	openA()
	openB()
	for _, done := range waiting {
		if r := arrives(t, "the answer to a request that waited", done); r.status != http.StatusOK || r.body != streamed() || r.endpoint() == "c" {
			t.Errorf("status %d from %q: %s", r.status, r.endpoint(), r.body)
		}
	}
	for _, finish := range running {
		finish()
	}
	g.idle(t)
	if n := g.queued(); n != 0 {
		t.Errorf("%d requests wait in the end", n)
	}
}

// A server is taken out of the configuration while a stream runs there and a
// request waits. The stream comes whole, the request goes to the server that is
// left, and the other one is asked for nothing any more and shown nowhere.
func TestAServerThatIsRemovedGetsNothingMore(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	limited := func(s *backend, name string) string {
		return fmt.Sprintf("endpoint %s {\nname %s\nmax_concurrent 1\n}\n", s.addr(), name)
	}
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s%s%s}\n", a.addr(), b.addr(), fast, patient, limited(a, "a"), limited(b, "b")))
	openA, openB := gate(a), gate(b)
	defer openA()
	defer openB()
	finish := []func(){holdStream(g, chat(true, "", "one")), holdStream(g, chat(true, "", "two"))}
	if a.count() != 1 || b.count() != 1 {
		t.Fatalf("split %d : %d, want one stream each", a.count(), b.count())
	}
	waiting := g.later(t, chat(true, "", "waits"))
	eventually(t, "the request to wait", func() bool { return g.queued() == 1 })

	if err := g.load(fmt.Sprintf("llm_proxy %s {\n%s%s%s}\n", a.addr(), fast, patient, limited(a, "a"))); err != nil {
		t.Fatal(err)
	}
	// A scrape may be under way, and no other follows it.
	time.Sleep(200 * time.Millisecond)
	b.mu.Lock()
	scrapes, asked := b.scrapes, b.asked
	b.mu.Unlock()
	openA()
	if r := arrives(t, "the answer to the request that waited", waiting); r.status != http.StatusOK || r.endpoint() != "a" {
		t.Errorf("the request that waited: status %d from %q: %s", r.status, r.endpoint(), r.body)
	}
	for i := range 5 {
		if r := g.post(distinct(i)); r.status != http.StatusOK || r.endpoint() != "a" {
			t.Errorf("status %d from %q after the reload", r.status, r.endpoint())
		}
	}
	openB()
	for _, f := range finish {
		f()
	}
	eventually(t, "the removed server to be forgotten", func() bool {
		return !strings.Contains(read(t, g.fromAdmin("/metrics")).body, `endpoint="b"`)
	})
	if rows := g.pools()[0].Endpoints; len(rows) != 1 {
		t.Errorf("the pool shows %d servers, want 1", len(rows))
	}
	a.seen()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hits != 1 || b.scrapes != scrapes || b.asked != asked {
		t.Errorf("the removed server got %d requests, %d scrapes and %d questions for its models; want 1, and none after the reload",
			b.hits, b.scrapes-scrapes, b.asked-asked)
	}
}

// Every server drains. Whoever comes is told so, with 503 and not 429, before its
// time for waiting is over, and nothing stays behind.
func TestEveryServerDrains(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	site := func(drain string) string {
		return fmt.Sprintf("llm_proxy %s %s {\n%squeue 50 {\nmax_wait 500ms\n}\nendpoint %s {\nname a\n%s}\nendpoint %s {\nname b\n%s}\n}\n",
			a.addr(), b.addr(), fast, a.addr(), drain, b.addr(), drain)
	}
	g := start(t, site(""))
	if r := g.post(distinct(0)); r.status != http.StatusOK {
		t.Fatalf("status %d", r.status)
	}
	if err := g.load(site("drain\n")); err != nil {
		t.Fatal(err)
	}
	nobodyServes(t, g, a, b)
}

// nobodyServes sends a few requests to a pool with a max_wait of 500ms, none of whose
// servers takes any: each is refused in time, no server sees it, nothing is left.
func nobodyServes(t *testing.T, g *gateway, a, b *backend) {
	t.Helper()
	hits := a.count() + b.count()
	a.seen()
	b.seen()
	goroutines := settled(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			began := time.Now()
			r, err := g.ask(http.DefaultClient, distinct(i))
			if err != nil {
				t.Error(err)
				return
			}
			r.isError(t, http.StatusServiceUnavailable)
			if !strings.Contains(r.body, `"no_endpoint"`) || r.header.Get("Retry-After") == "" {
				t.Errorf("%s (Retry-After %q)", r.body, r.header.Get("Retry-After"))
			}
			if took := time.Since(began); took > 1500*time.Millisecond {
				t.Errorf("answered after %v, want at most the 500ms of max_wait", took)
			}
		})
	}
	all.Wait()
	if n := a.count() + b.count() - hits; n != 0 {
		t.Errorf("%d requests reached a server that drains", n)
	}
	if n := g.queued(); n != 0 {
		t.Errorf("%d requests wait in the end", n)
	}
	if got := settled(t); got > goroutines+12 { // of which one for each request would be twenty
		t.Errorf("%d goroutines afterwards, %d before", got, goroutines)
	}
}

// A rolling update: no server listens when twenty requests come, and one does a
// second and a half later. All of them are served.
func TestRequestsWaitForAServerToComeUp(t *testing.T) {
	dead, addr := freeAddr(t), freeAddr(t)
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%squeue 50 {\nmax_wait 10s\n}\nendpoint %s {\nname late\n}\n}\n", dead, addr, fast, addr))
	eventually(t, "the server to be seen as down", func() bool { return g.endpoint("late").State == "down" })
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			r, err := g.ask(http.DefaultClient, distinct(i))
			if err != nil || r.status != http.StatusOK || r.endpoint() != "late" {
				t.Errorf("status %d from %q, %v: %s", r.status, r.endpoint(), err, r.body)
			}
		})
	}
	time.Sleep(1500 * time.Millisecond) // what starting an engine takes
	b := newBackendUnstarted(t)
	b.Server = &httptest.Server{Listener: listenAt(t, addr), Config: &http.Server{Handler: b}}
	b.Start()
	t.Cleanup(b.Close)
	began := time.Now()
	all.Wait()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the last one was served %v after the server had come up", took)
	}
	if n := b.count(); n != 20 {
		t.Errorf("%d requests reached the server, want 20", n)
	}
}

// A request waits for the busy server that holds its prefix, though another one is
// free. When the server it waits for is removed, the other one serves it at once.
func TestARequestThatWaitsForARemovedServer(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	both := fmt.Sprintf("llm_proxy %s %s {\n%s%s%s}\n", a.addr(), b.addr(), fast, patient, named(a, b))
	g := start(t, both)
	// Fifty thousand tokens a second, and long prompts take longer, as they do.
	computing := func(w http.ResponseWriter, r *http.Request, body []byte) {
		time.Sleep(time.Duration(llmlb.Work{Uncached: len(body) / 4}.Effort()) * 20 * time.Microsecond)
		answer(w, r, body)
	}
	a.answers(computing)
	b.answers(computing)
	prefix := prose("a long document", 320_000)
	onlyFree(b, a, b)
	for i := range 4 {
		g.post(chat(true, "", prose(fmt.Sprint("what b is like ", i), 20_000)))
	}
	onlyFree(a, a, b)
	for i := range 4 {
		g.post(chat(true, "", prose(fmt.Sprint("what a is like ", i), 20_000)))
	}
	if r := g.post(chat(true, prefix, "first")); r.endpoint() != "a" {
		t.Fatalf("the document went to %s", r.endpoint())
	}
	// Something else keeps it busy for as long as the test likes.
	open := sync.OnceFunc(silent(a))
	defer open()
	busy := g.later(t, chat(true, "", prose("something else", 240_000)))
	a.await("the other request", func() bool { return a.open == 1 })
	allFree(a, b)

	waiting := g.later(t, chat(true, prefix, "second"))
	eventually(t, "the request to wait", func() bool { return g.queued() == 1 })
	if n := b.count(); n != 4 {
		t.Errorf("%d requests at the free server, want 4: this one waits", n)
	}
	b.answers(answer)
	if err := g.load(fmt.Sprintf("llm_proxy %s {\n%s%sendpoint %s {\nname b\n}\n}\n", b.addr(), fast, patient, b.addr())); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r := arrives(t, "the answer to the request that waited", waiting)
	if r.status != http.StatusOK || r.body != streamed() || r.endpoint() != "b" {
		t.Errorf("status %d from %q: %s", r.status, r.endpoint(), r.body)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("served %v after the reload", took)
	}
	open()
	if r := arrives(t, "the other answer", busy); r.status != http.StatusOK || r.endpoint() != "a" {
		t.Errorf("what ran on the removed server: status %d from %q", r.status, r.endpoint())
	}
}

// listenAt opens the port at the address, which somebody's connection may have for
// a moment.
func listenAt(t *testing.T, addr string) (l net.Listener) {
	t.Helper()
	eventually(t, "the server's port to be free", func() bool {
		var err error
		l, err = net.Listen("tcp", addr)
		return err == nil
	})
	return l
}
