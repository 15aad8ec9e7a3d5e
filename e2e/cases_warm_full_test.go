package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// A server comes back beside one that is at its limit with long answers. It is the
// only one that takes anything, and nobody waits beside it for its warm-up to end.
func TestNobodyIsRefusedBesideAServerThatWarmsUp(t *testing.T) {
	began := time.Now()
	a, b := newBackend(t), newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%swarm_up 2m\nqueue 100 {\nmax_wait 5s\n}\nendpoint %s {\nname a\nmax_concurrent 2\n}\nendpoint %s {\nname b\n}\n}\n",
		a.addr(), b.addr(), fast, a.addr(), b.addr()))
	a.seen()
	b.seen()
	old(t, began)
	b.goDown()
	eventually(t, "b to be down", func() bool { return g.endpoint("b").State == "down" })
	openA := gate(a)
	defer openA()
	finish := streams(g, 2)
	b.comeUp()
	eventually(t, "b to be back", func() bool { return g.endpoint("b").State == "up" })
	working(b, 100, always(300*time.Millisecond))
	list := make([]<-chan reply, 10)
	for i := range list {
		list[i] = g.later(t, distinct(i))
		time.Sleep(20 * time.Millisecond)
	}
	for i, done := range list {
		if r := arrives(t, "an answer", done); r.status != http.StatusOK || r.endpoint() != "b" {
			t.Errorf("request %d: status %d from %q: %s", i, r.status, r.endpoint(), r.body)
		}
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	b.mu.Lock()
	if b.maxOpen < 5 {
		t.Errorf("%d requests were open at once at the only server that takes any", b.maxOpen)
	}
	b.mu.Unlock()
	openA()
	finish()
}
