package llmlb

import (
	"testing"
	"time"
)

// knows has the endpoint have shown that it computes so many tokens a second.
func knows(e *Endpoint, speed float64) {
	e.rates.samples, e.rates.tokens, e.rates.seconds, e.rates.at = enoughSamples, speed, 1, t0
}

// A server that has been at a long prompt for a while has less of it left: it must
// not look like one that has just begun. How much is known from its speed, and never
// is all of it believed before a first token comes.
func TestAPromptBeingComputedCountsLessAndLess(t *testing.T) {
	p := NewPool("progress")
	s := bound(t, p, Member{Address: "a:1"})
	e := s.Members[0].Endpoint
	knows(e, 1000)
	p.Lock()
	defer p.Unlock()
	left := func(sec float64) float64 { return e.Load(at(sec), s).PrefillTokens }
	first := p.Reserve(e, t0, Work{Uncached: 200, Output: 1})
	second := p.Reserve(e, t0, Work{Uncached: 400, Output: 1})
	whole := left(0)
	for _, tc := range []struct{ sec, done float64 }{{0.1, 100}, {0.15, 150}, {0.5, 180}, {60, 180}} {
		if got := whole - left(tc.sec); got < tc.done-1 || got > tc.done+1 {
			t.Errorf("after %v s %.0f tokens are done, want %.0f", tc.sec, got, tc.done)
		}
	}
	first.firstToken(at(1))
	if got := left(1); got != float64(second.effort) {
		t.Errorf("%.0f tokens left, want the second's %d: it has just begun", got, second.effort)
	}
	if got := left(1.1); got > float64(second.effort)-99 || got < float64(second.effort)-101 {
		t.Errorf("%.0f tokens left a tenth of a second later, want 100 less", got)
	}
}

// One that is given up in the middle leaves its place to the next, whoever it is.
func TestProgressIsThatOfWhoeverIsFirst(t *testing.T) {
	var q prefills
	a, b, c := &Lease{effort: 100}, &Lease{effort: 200}, &Lease{effort: 300}
	for _, l := range []*Lease{a, b, c} {
		q.add(l, t0)
	}
	q.remove(b, at(1)) // behind the first: changes nothing for it
	if got := q.first(at(1)).done(0, 50); got != 50 {
		t.Errorf("%v done, want 50", got)
	}
	q.remove(a, at(2))
	if got := q.first(at(2)).done(time.Second, 50); got != 50 {
		t.Errorf("%v done of the last, want what one second does", got)
	}
	q.remove(c, at(4))
	q.remove(c, at(4))
	if got := q.first(at(5)).done(0, 50); got != 0 || len(q.leases) != 0 {
		t.Errorf("%v done of nothing", got)
	}
}

// Requests wait while an endpoint has enough to compute, and are to be asked again
// when enough of that is done, though nothing else happens.
func TestWhenComputingAloneMakesRoom(t *testing.T) {
	p := NewPool("room")
	s := bound(t, p, Member{Address: "a:1"})
	p.Start(s, t0)
	e := s.Members[0].Endpoint
	knows(e, 10_000) // room means less than 6,000
	if got := p.NextRoom(t0); !got.IsZero() {
		t.Errorf("an idle endpoint makes room at %v", got)
	}
	p.Lock()
	l := p.Reserve(e, t0, Work{Uncached: 8000, Output: 1}) // 9,600
	p.Unlock()
	if got := p.NextRoom(t0).Sub(t0); got < 359*time.Millisecond || got > 361*time.Millisecond {
		t.Errorf("room after %v, want when 3,600 of 9,600 are done", got)
	}
	p.Lock()
	p.Reserve(e, t0, Work{Uncached: 8000, Output: 1})
	p.Unlock()
	if got := p.NextRoom(t0); !got.IsZero() {
		t.Errorf("room at %v, though all of the first prompt is not enough", got)
	}
	l.End(at(1))
	if got := p.NextRoom(at(1)).Sub(t0); got < 1359*time.Millisecond || got > 1361*time.Millisecond {
		t.Errorf("room after %v, want 3,600 tokens after the first has ended", got)
	}
}
