package e2e

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// old waits until a server that comes is one that joins a pool at work, and no
// longer one of those with which the pool began.
func old(t *testing.T, began time.Time) {
	t.Helper()
	eventually(t, "the pool to have been at work", func() bool { return time.Since(began) > 5200*time.Millisecond })
}

// working makes the server take so long for an answer, and refuse what it gets
// beyond a number at a time.
func working(b *backend, most int, takes func() time.Duration) (refused *atomic.Int32) {
	refused = new(atomic.Int32)
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		b.mu.Lock()
		open := b.open
		b.mu.Unlock()
		if open > most {
			refused.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		select {
		case <-time.After(takes()):
			answer(w, r, body)
		case <-r.Context().Done():
		}
	})
	return refused
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// The only server is away for two seconds while fifty requests come in. When it is
// back it breaks down if all of them rush at it. They do not.
func TestFiftyWaitForAServerThatComesBack(t *testing.T) {
	const most = 10
	a := newBackend(t)
	refused := working(a, most, always(200*time.Millisecond))
	g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%squeue 100 {\nmax_wait 10s\n}\nendpoint %s {\nname a\nmax_concurrent %d\n}\n}\n",
		a.addr(), fast, patient, a.addr(), most))
	if r := g.post(distinct(0)); r.status != http.StatusOK {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	went := time.Now()
	a.goDown()
	eventually(t, "the server to be seen as down", func() bool { return g.endpoint("a").State == "down" })
	list := make([]<-chan reply, 50)
	for i := range list {
		list[i] = g.later(t, distinct(i+1))
	}
	eventually(t, "all requests to wait", func() bool { return g.queued() == len(list) })
	eventually(t, "two seconds to pass", func() bool { return time.Since(went) > 2*time.Second })
	a.comeUp()
	for i, done := range list {
		if r := arrives(t, "an answer", done); r.status != http.StatusOK && r.status != http.StatusTooManyRequests {
			t.Errorf("request %d: status %d: %s", i, r.status, r.body)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.maxOpen > most || refused.Load() > 0 {
		t.Errorf("%d requests were open at the server at once, %d refused; it can do %d", a.maxOpen, refused.Load(), most)
	}
}

// A third server joins two that are at work. It is empty and slow at first: its
// caches are cold and its kernels are being compiled. It gets a small share of what
// comes, and never more than its limit.
func TestAServerThatJoinsGetsItsShare(t *testing.T) {
	a, b, c := newBackend(t), newBackend(t), newBackend(t)
	limited := func(list ...*backend) (s string) {
		for i, b := range list {
			s += fmt.Sprintf("endpoint %s {\nname %s\nmax_concurrent 20\n}\n", b.addr(), nameOf(i))
		}
		return s
	}
	began := time.Now()
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s%s}\n", a.addr(), b.addr(), fast, patient, limited(a, b)))
	openA, openB := gate(a), gate(b)
	defer openA()
	defer openB()
	finish := streams(g, 8)
	for _, b := range []*backend{a, b} {
		working(b, 20, always(250*time.Millisecond))
	}
	old(t, began)

	var joined time.Time
	refused := working(c, 20, func() time.Duration {
		if time.Since(joined) < 2*time.Second {
			return time.Second
		}
		return 250 * time.Millisecond
	})
	joined = time.Now()
	if err := g.load(fmt.Sprintf("llm_proxy %s %s %s {\n%s%s%s}\n", a.addr(), b.addr(), c.addr(), fast, patient, limited(a, b, c))); err != nil {
		t.Fatal(err)
	}
	c.seen()
	list := make([]<-chan reply, 30)
	for i := range list {
		list[i] = g.later(t, distinct(i))
		time.Sleep(10 * time.Millisecond)
	}
	served := map[string]int{}
	for i, done := range list {
		r := arrives(t, "an answer", done)
		if r.status != http.StatusOK {
			t.Errorf("request %d: status %d: %s", i, r.status, r.body)
		}
		served[r.endpoint()]++
	}
	t.Logf("served by %v", served)
	if served["c"] > 12 || served["c"] == 0 || refused.Load() > 0 {
		t.Errorf("the new server got %d of 30, want 1 to 12; split %v, %d refused", served["c"], served, refused.Load())
	}
	c.mu.Lock()
	if c.maxOpen > 3 { // a fifth of the others' calls at most, so soon after it came
		t.Errorf("%d requests were open at the new server at once", c.maxOpen)
	}
	c.mu.Unlock()
	openA()
	openB()
	finish()
}

// Ten conversations are at home at a server that goes away for two seconds. Each
// finds one other server and keeps to it; while the one that is back warms up, and
// afterwards, none goes to and fro.
func TestConversationsWhileTheirServerWarmsUp(t *testing.T) {
	began := time.Now()
	g, list := trio(t, fast+"warm_up 2s\n")
	for _, b := range list {
		b.answers(telling(unsaid))
	}
	onlyFree(list[0], list...)
	all := make([]*conversation, 10)
	round := func() {
		for _, c := range all {
			if r := c.turn(g); r.status != http.StatusOK {
				t.Fatalf("%s: status %d: %s", c.name, r.status, r.body)
			}
		}
	}
	rounds := func(d time.Duration) {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for until := time.Now().Add(d); time.Now().Before(until); {
			<-tick.C
			round()
		}
	}
	for i := range all {
		all[i] = &conversation{name: fmt.Sprint("conversation ", i)}
	}
	round()
	allFree(list...)
	old(t, began)

	list[0].goDown()
	rounds(2 * time.Second)
	for _, c := range all {
		for _, server := range c.servers[1:] {
			if server == "a" || server != c.servers[1] {
				t.Errorf("%s went to %v while a was down, want one and the same other", c.name, c.servers[1:])
				break
			}
		}
	}
	list[0].comeUp()
	rounds(4 * time.Second) // twice the warm-up
	for _, c := range all {
		if c.moves() > 2 {
			t.Errorf("%s moved %d times: %v", c.name, c.moves(), c.servers)
		}
	}
	if state := g.endpoint("a").State; state != "up" {
		t.Errorf("the server that came back is %q", state)
	}
}
