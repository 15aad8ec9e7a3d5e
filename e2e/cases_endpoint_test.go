package e2e

import (
	"fmt"
	"net/http"
	"testing"
)

// optioned starts two servers, a and b, with what is special about each.
func optioned(t *testing.T, options, ofA, ofB string) (g *gateway, a, b *backend) {
	t.Helper()
	a, b = newBackend(t), newBackend(t)
	g = start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s\nendpoint %s {\nname a\n%s\n}\nendpoint %s {\nname b\n%s\n}\n}\n",
		a.addr(), b.addr(), fast, options, a.addr(), ofA, b.addr(), ofB))
	return g, a, b
}

// A server with max_tokens gets no more tokens at a time than that, whatever is
// cached there; the next ones go elsewhere, or are refused. A prompt that is
// longer by itself is let in where nothing else runs.
func TestTokenLimitOfAServer(t *testing.T) {
	g, a, b := optioned(t, "queue {\nmax_wait 0\n}\n", "max_tokens 3000", "max_tokens 3000")
	openA, openB := silent(a), silent(b)
	long := func(i int) string { return chat(true, "", prose(fmt.Sprint("prompt ", i), 8000)) }
	var running []chan reply
	send := func(body string) {
		sent := a.count() + b.count()
		done := make(chan reply, 1)
		go func() {
			r, err := g.ask(http.DefaultClient, body)
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		running = append(running, done)
		eventually(t, "the request to reach a server", func() bool { return a.count()+b.count() > sent })
	}
	send(long(0)) // 2,000 tokens, and some output
	send(long(1))
	if a.count() != 1 || b.count() != 1 {
		t.Errorf("split %d : %d, want one each", a.count(), b.count())
	}
	if r := g.post(long(2)); r.status != http.StatusTooManyRequests {
		t.Errorf("status %d when all tokens are taken: %s", r.status, r.body)
	}
	openA()
	openB()
	for _, done := range running {
		if r := <-done; r.body != streamed() {
			t.Errorf("status %d: %q", r.status, r.body)
		}
	}
	g.idle(t)
	if r := g.post(chat(false, "", prose("very long", 40_000))); r.status != http.StatusOK {
		t.Errorf("status %d for a prompt over the limit when nothing runs: %s", r.status, r.body)
	}
}

// silent makes the server hold its answers, headers and all, until open.
func silent(b *backend) (open func()) {
	ch := make(chan struct{})
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		select {
		case <-ch:
		case <-r.Context().Done():
		}
		answer(w, r, body)
	})
	return func() { close(ch) }
}

// The servers of this gateway's own zone get everything, busy or not, until none
// of them can be used; and again as soon as one can.
func TestTheLocalZoneComesFirst(t *testing.T) {
	g, a, b := optioned(t, "local_zone here", "zone here", "zone there")
	a.set(load{running: 20, waiting: 2, kv: 0.5})
	a.seen()
	for i := range 20 {
		if got := g.post(distinct(i)).endpoint(); got != "a" {
			t.Fatalf("request %d went to %s while the local server was up", i, got)
		}
	}
	a.goDown()
	for i := range 10 {
		if r := g.post(distinct(i)); r.status != http.StatusOK || r.endpoint() != "b" {
			t.Fatalf("request %d: status %d from %s while the local server was down", i, r.status, r.endpoint())
		}
	}
	a.comeUp()
	eventually(t, "the server to be up again", func() bool { return g.endpoint("a").State == "up" })
	there := b.count()
	for i := range 20 {
		g.post(distinct(i))
	}
	if n := b.count() - there; n > 0 {
		t.Errorf("%d of 20 went to the other zone when the local server was back", n)
	}
	if row := g.endpoint("b"); row.Zone != "there" {
		t.Errorf("the pool shows zone %q", row.Zone)
	}
}

// A server of weight 3 is the home of three times as many new conversations as
// one of weight 1.
func TestWeightsShareNewConversations(t *testing.T) {
	g, a, _ := optioned(t, "", "weight 3", "")
	const n = 600
	for i := range n {
		g.post(chat(false, "", fmt.Sprintf("conversation %d begins", i)))
	}
	if share := float64(a.count()) / n; share < 0.67 || share > 0.83 {
		t.Errorf("the server of weight 3 got %.2f of them, want 0.75", share)
	}
}
