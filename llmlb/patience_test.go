package llmlb

import (
	"testing"
	"time"
)

// A request that waits for its first token longer than it should is either
// queued behind others or lost. What speaks for the first has to be seen.
func TestQueued(t *testing.T) {
	// The request is sent at 10 s and asks at 20 s.
	const sent, asks = 10.0, 20.0
	counted := func(e *Endpoint, sec, running, waiting, tokens float64) {
		s := page(sec, running, waiting)
		s.GenerationTokens = tokens
		e.ObserveSignals(s)
	}
	whole := func(p *Pool, e *Endpoint, sec float64) *Call {
		c := NewCall(p, p.Current(), at(sec))
		c.InputTokens, c.Lease = 100, take(p, e, at(sec))
		c.Begin(e, at(sec))
		return c
	}
	for _, tc := range []struct {
		name string
		set  func(p *Pool, e *Endpoint)
		want bool
	}{
		{"nothing is known", func(*Pool, *Endpoint) {}, false},
		{"another stream goes on", func(_ *Pool, e *Endpoint) { e.Progressed(at(19)) }, true},
		{"another stream went on before", func(_ *Pool, e *Endpoint) { e.Progressed(at(9)) }, false},
		{"another stream went on ten seconds ago", func(_ *Pool, e *Endpoint) { e.Progressed(at(10)) }, false},
		{"another answer has ended", func(p *Pool, e *Endpoint) { send(p, e, 5).EndAttempt(at(15), Served) }, true},
		{"another has failed", func(p *Pool, e *Endpoint) { send(p, e, 5).EndAttempt(at(15), EngineError) }, false},
		{"another stream goes on, and the engine says that nobody waits", func(_ *Pool, e *Endpoint) {
			counted(e, 19.5, 2, 0, Unknown)
			e.Progressed(at(19.9))
		}, false},
		{"the engine said so before the request was sent", func(_ *Pool, e *Endpoint) {
			counted(e, 9.9, 2, 0, Unknown)
			e.Progressed(at(19.9))
		}, true},
		{"the engine says that some wait", func(_ *Pool, e *Endpoint) {
			counted(e, 19.5, 2, 3, Unknown)
			e.Progressed(at(19.9))
		}, true},
		{"some wait, and nothing moves", func(_ *Pool, e *Endpoint) {
			for sec := 5.0; sec < asks; sec++ {
				counted(e, sec, 2, 3, 5000)
			}
		}, false},
		{"some wait, and tokens are counted", func(_ *Pool, e *Endpoint) {
			for sec := 5.0; sec < asks; sec++ {
				counted(e, sec, 2, 3, 5000+sec)
			}
		}, true},
		{"tokens of a second that began before", func(_ *Pool, e *Endpoint) {
			for sec := 5.0; sec < asks; sec++ {
				counted(e, sec, 2, 3, 5000+min(sec, 11))
			}
		}, false},
		{"one slot, and an older answer that comes whole", func(p *Pool, e *Endpoint) { whole(p, e, 5) }, true},
		{"the same, ended by its client", func(p *Pool, e *Endpoint) { whole(p, e, 5).EndAttempt(at(12), ClientGone) }, false},
		{"a younger answer that comes whole", func(p *Pool, e *Endpoint) { whole(p, e, 12) }, false},
		{"an older answer that comes whole and takes far too long", func(p *Pool, e *Endpoint) { whole(p, e, -60) }, false},
		{"the same, behind one that has just ended", func(p *Pool, e *Endpoint) {
			whole(p, e, -60)
			send(p, e, -70).EndAttempt(at(9), Served)
		}, true},
		{"an older stream without tokens yet", func(p *Pool, e *Endpoint) {
			c := send(p, e, 5)
			c.Begin(e, at(5))
		}, false},
		{"an older stream that nobody reads", func(p *Pool, e *Endpoint) { send(p, e, 5).Lease.Quiet(time.Time{}) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, e, _ := withCircuit(t)
			tc.set(p, e)
			if got := e.Queued(at(sent), at(asks), p.Current()); got != tc.want {
				t.Errorf("queued %v, want %v", got, tc.want)
			}
			if now := at(asks + 300); e.Queued(at(sent), now, p.Current()) {
				t.Error("still queued after five minutes without another sign of life")
			}
		})
	}
}

// A page that was read before the request was sent cannot have counted it.
func TestAPageFromBeforeDoesNotDenyAQueue(t *testing.T) {
	p, e, _ := withCircuit(t)
	e.ObserveSignals(page(9.9, 2, 0))
	e.Progressed(at(11))
	if !e.Queued(at(10), at(12), p.Current()) {
		t.Error("not queued")
	}
	e.ObserveSignals(page(11.9, 2, 0))
	if e.Queued(at(10), at(12), p.Current()) {
		t.Error("queued where a newer page says that nobody waits")
	}
}

// Pages that are read rarely tell of progress late.
func TestProgressOnPagesThatAreReadRarely(t *testing.T) {
	p, e, _ := withCircuit(t)
	s := *p.Current()
	s.Scrape = Scrape{Interval: 15 * time.Second, StaleAfter: time.Minute}
	for sec := 0.0; sec <= 45; sec += 15 {
		g := page(sec, 2, 3)
		g.GenerationTokens = 1000 + sec
		e.ObserveSignals(g)
	}
	if !e.Queued(at(20), at(59), &s) { // something was computed after 30 s
		t.Error("not queued")
	}
	if e.Queued(at(31), at(59), &s) {
		t.Error("queued, though nobody knows of anything that came after")
	}
}

// An answer that shows no tokens ends when its endpoint is gone: a request that
// comes whole has no other bound.
func TestLost(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(p *Pool, e *Endpoint)
		want bool
	}{
		{"two refused connections", func(_ *Pool, e *Endpoint) {
			e.NotReached(at(20), "refused")
			e.NotReached(at(20), "refused")
		}, false},
		{"three", func(_ *Pool, e *Endpoint) {
			for range 3 {
				e.NotReached(at(20), "refused")
			}
		}, true},
		{"three, while tokens come", func(_ *Pool, e *Endpoint) {
			e.Progressed(at(19))
			for range 3 {
				e.NotReached(at(20), "timed out")
			}
		}, false},
		{"and again when none came any more", func(_ *Pool, e *Endpoint) {
			e.Progressed(at(19))
			for range 3 {
				e.NotReached(at(20), "timed out")
			}
			e.NotReached(at(30), "timed out")
		}, true},
		{"five in silence", func(p *Pool, e *Endpoint) { fail(p, e, 20, 5, FirstTokenTimeout) }, true},
		{"five in silence, while tokens come", func(p *Pool, e *Endpoint) {
			e.Progressed(at(19))
			fail(p, e, 20, 5, FirstTokenTimeout)
		}, false},
		{"one in silence, where one opens the circuit", func(p *Pool, e *Endpoint) {
			p.Current().Circuit.Failures = 1
			fail(p, e, 20, 1, FirstTokenTimeout)
		}, false},
		{"five errors", func(p *Pool, e *Endpoint) { fail(p, e, 20, 5, EngineError) }, false},
		{"four errors and silence", func(p *Pool, e *Endpoint) {
			fail(p, e, 20, 4, EngineError)
			fail(p, e, 20, 1, FirstTokenTimeout)
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, e, _ := withCircuit(t)
			lost := e.Lost()
			if e.Lost() != lost {
				t.Error("each who asks is told by another channel")
			}
			tc.set(p, e)
			select {
			case <-lost:
				if !tc.want {
					t.Error("lost")
				}
				if e.Lost() == lost {
					t.Error("who asks from now on is told of the old loss")
				}
			default:
				if tc.want {
					t.Error("nobody is told")
				}
			}
		})
	}
}

func TestQuietAfterTheEndIsForgotten(t *testing.T) {
	p, e := one(t)
	l := take(p, e, t0)
	l.End(t0)
	l.Quiet(time.Time{})
	if len(e.quiet) != 0 || e.Queued(at(1), at(2), p.Current()) {
		t.Error("a Lease that has ended speaks for its endpoint")
	}
}

// What is known of a server decides how long it is given. One that has shown no
// speed yet may be slow; one that has is taken at its word.
func TestPatienceWithServersOfUnknownSpeed(t *testing.T) {
	p := NewPool("unknown")
	s := bound(t, p, Member{Address: "a:1"})
	e := s.Members[0].Endpoint
	c := NewCall(p, s, t0)
	c.Decision.Predicted = time.Second
	if got := c.Patience(); got != time.Second {
		t.Errorf("%v without a place, want the prediction", got)
	}
	p.Lock()
	c.Lease = p.Reserve(e, t0, Work{Uncached: 2000, Output: 10})
	p.Unlock()
	if got := c.Patience(); got != 4200*time.Millisecond {
		t.Errorf("%v for 2,000 tokens, 2,100 of effort, want what a slow server takes", got)
	}
	other := p.endpoint("b:1", "b")
	other.rates.samples = enoughSamples
	if got := c.Patience(); got != patientFactor*time.Second {
		t.Errorf("%v where another server has shown its speed, want twice the prediction", got)
	}
	p.Lock()
	e.rates.samples = enoughSamples
	p.Unlock()
	if got := c.Patience(); got != time.Second {
		t.Errorf("%v on a server that has shown its speed, want the prediction", got)
	}
}
