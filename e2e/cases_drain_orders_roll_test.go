package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A rolling update under constant load: each of four servers is drained, stopped,
// started and resumed. No client sees an error or a stream that was cut, and no
// server was stopped with anything open.
func TestARollingUpdate(t *testing.T) {
	list := []*backend{newBackend(t), newBackend(t), newBackend(t), newBackend(t)}
	var upstreams strings.Builder
	for _, b := range list {
		fmt.Fprintf(&upstreams, " %s", b.addr())
		b.answers(slowly)
	}
	g := start(t, fmt.Sprintf("llm_proxy%s {\n%swarm_up 1s\n%s}\n", upstreams.String(), fast, named(list...)))

	var clients sync.WaitGroup
	var served atomic.Int32
	done := make(chan struct{})
	for i := range 12 {
		clients.Go(func() {
			client := &http.Client{Transport: new(http.Transport)}
			defer client.CloseIdleConnections()
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				r, err := g.ask(client, chat(true, "", prose(fmt.Sprintf("client %d, question %d", i, n), 400)))
				if err != nil || r.status != http.StatusOK || r.body != streamed() {
					t.Errorf("client %d: status %d, %v: %q", i, r.status, err, r.body)
					return
				}
				served.Add(1)
			}
		})
	}
	for i, b := range list {
		b.await("something to do", func() bool { return b.open > 0 })
		name := nameOf(i)
		g.order(http.MethodPost, name, "/drain?limit=30s")
		eventually(t, "the server to be drained", func() bool { return g.endpoint(name).State == "drained" })
		b.mu.Lock()
		open, hits := b.open, b.hits
		b.mu.Unlock()
		if open > 0 {
			t.Errorf("%s is drained, and has %d requests open", name, open)
		}
		b.goDown()
		time.Sleep(300 * time.Millisecond) // what a restart takes, and the gateway notices
		b.comeUp()
		b.seen()
		if n := b.count() - hits; n != 0 {
			t.Errorf("%s got %d requests before it was resumed", name, n)
		}
		g.order(http.MethodDelete, name, "/drain")
		eventually(t, "the server to be in use", func() bool { return g.endpoint(name).State == "up" })
		b.await("requests after the restart", func() bool { return b.hits > hits })
	}
	close(done)
	clients.Wait()
	g.idle(t)
	if n := served.Load(); n < 40 { // some at each step
		t.Errorf("only %d requests were served", n)
	}
	for i := range list {
		for outcome, n := range g.attempts(nameOf(i)) {
			if outcome != "served" && n > 0 {
				t.Errorf("%d attempts at %s ended as %s", n, nameOf(i), outcome)
			}
		}
	}
}

// slowly streams the usual answer over a good part of a second.
func slowly(w http.ResponseWriter, r *http.Request, _ []byte) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range answerEvents {
		select {
		case <-time.After(60 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
		send(w, e)
	}
}
