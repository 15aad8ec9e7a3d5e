package integration

import (
	"errors"
	"syscall"
	"testing"
	"time"
)

const (
	manyClients = 200
	manyWords   = 30
)

// spread has first tokens come at any time between half a second and two and a
// half, so that at any moment some streams have tokens and some have none. The
// streams last 3 s more.
var spread = pace{first: "1500ms", spread: "450ms", between: "100ms"}

// A server that dies takes its begun answers with it and nothing else: who has
// waited for a first token gets a whole answer from the other.
func TestKilledServerCostsOnlyTheStreamsItHadBegun(t *testing.T) {
	need(t)
	r := startRig(t, spread, "scrape_interval 200ms\nstale_after 2s\nfirst_token 4s 8s")
	c := r.ask(t, manyClients, manyWords, 1)
	c.await(t, manyClients/2)
	r.a.signal(t, syscall.SIGKILL)
	c.lost(t)
	r.settled(t)
}

// A server that stands still, with all its connections open, is told from one
// that thinks: by the time for a first token before it, by stall_timeout after.
// When it goes on, it serves again.
func TestStoppedServerCostsOnlyTheStreamsItHadBegun(t *testing.T) {
	need(t)
	const stall, first = time.Second, 5 * time.Second
	r := startRig(t, spread, "scrape_interval 200ms\nstale_after 2s\nfirst_token 3s 5s\nstall_timeout 1s\ncircuit {\nopen_for 1s\n}")
	c := r.ask(t, manyClients, manyWords, 1)
	c.await(t, manyClients/2)
	r.a.signal(t, syscall.SIGSTOP)
	stopped := time.Now()
	c.lost(t)
	for i, a := range c.answers {
		switch {
		case !a.whole():
			if late := a.ended.Sub(stopped); late > stall+noise {
				t.Errorf("answer %d ended %v after its server stood still, want %v", i, late, stall)
			}
		case a.retried():
			// The other server takes up to 2.55 s for its first token.
			if took := a.first.Sub(a.sent); took > first+2550*time.Millisecond+noise {
				t.Errorf("answer %d began after %v, want the other to be asked after %v at the latest", i, took, first)
			}
		}
	}
	r.settled(t) // before the server goes on: nothing may wait for that

	r.a.signal(t, syscall.SIGCONT)
	eventually(t, "the server to serve again", func() error {
		c := r.ask(t, 8, 1, 1)
		c.ended.Wait()
		for _, a := range c.answers {
			if what := a.wrong(); what != "" {
				t.Errorf("an answer after the server went on %s", what)
			}
			if a.whole() && a.from() == "sim-a" {
				return nil
			}
		}
		return errors.New("the other one served all")
	})
	r.settled(t)
}

// lost checks a crowd that was halfway to its first tokens when A was lost.
func (c *crowd) lost(t *testing.T) {
	t.Helper()
	sum := c.wait(t)
	if sum.byA > 0 || sum.cutB > 0 {
		t.Errorf("%d answers of A look whole and %d of B are cut, want none", sum.byA, sum.cutB)
	}
	if sum.cutA == 0 || sum.retried == 0 {
		t.Error("A had not both streams with tokens and streams without, so not all was tested")
	}
	for i, a := range c.answers {
		if a.retried() && a.from() != "sim-b" {
			t.Errorf("answer %d was asked again and is from %q", i, a.from())
		}
	}
}

// signal sends a signal to the simulator's process.
func (s simulator) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.pid, sig); err != nil {
		t.Fatalf("sending %v to %s: %v", sig, s.name, err)
	}
}
