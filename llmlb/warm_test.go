package llmlb

import (
	"math"
	"testing"
	"time"
)

func shareAt(e *Endpoint, sec float64) float64 {
	e.pool.Lock()
	defer e.pool.Unlock()
	return e.Share(at(sec), e.pool.current())
}

// A pool that begins has nobody to warm up beside. One that joins it later begins
// with a tenth, and has its whole share when the ramp is over.
func TestWarmUpOfANewEndpoint(t *testing.T) {
	checks := Checks{WarmUp: 30 * time.Second}
	p, list, _ := checked(t, checks, "a:1")
	if s := shareAt(list[0], 0); s != 1 {
		t.Errorf("the first begins with %v", s)
	}
	next := bound(t, p, Member{Address: "a:1"}, Member{Address: "b:1"})
	next.Checks = checks
	p.Start(next, at(100))
	b := next.Members[1].Endpoint
	for sec, want := range map[float64]float64{100: 0.1, 110: 0.4, 120: 0.7, 130: 1, 1000: 1} {
		if s := shareAt(b, sec); math.Abs(s-want) > 1e-9 {
			t.Errorf("at %v its share is %v, want %v", sec, s, want)
		}
	}
	if s := shareAt(list[0], 100); s != 1 {
		t.Errorf("the old one has %v", s)
	}
	p.Start(next, at(200)) // another reload is no new beginning
	if s := shareAt(b, 200); s != 1 {
		t.Errorf("after another reload its share is %v", s)
	}
}

// What comes back begins small, whatever it was that kept it away; what was only
// overloaded, or resumed before it was empty, has lost nothing.
func TestWarmUpOfAReturn(t *testing.T) {
	unreachable := func(e *Endpoint) {
		for range downAfter {
			e.NotReached(at(10), "connection refused")
		}
		e.Reached(at(20))
	}
	for name, test := range map[string]struct {
		happens func(p *Pool, e *Endpoint)
		want    float64
	}{
		"unreachable":  {func(_ *Pool, e *Endpoint) { unreachable(e) }, 0.1},
		"not ready":    {func(_ *Pool, e *Endpoint) { walk(e, 10, "fff"); walk(e, 19, "pp") }, 0.1},
		"loads":        {func(_ *Pool, e *Endpoint) { walk(e, 10, "l"); walk(e, 20, "p") }, 0.1},
		"restarted":    {func(_ *Pool, e *Endpoint) { restart(e, 20) }, 0.1},
		"was drained":  {func(_ *Pool, e *Endpoint) { e.Drain(at(10), DrainOrder{}); _ = e.Resume(at(20)) }, 0.1},
		"was draining": {func(p *Pool, e *Endpoint) { send(p, e, 5); e.Drain(at(10), DrainOrder{}); _ = e.Resume(at(20)) }, 1},
		"overloaded":   {func(_ *Pool, e *Endpoint) { e.NoteOverload(at(10), 0) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, list, _ := checked(t, Checks{Readiness: usualReadiness, WarmUp: 30 * time.Second}, "a:1", "b:1")
			test.happens(p, list[0])
			if s := shareAt(list[0], 20); math.Abs(s-test.want) > 1e-9 {
				t.Errorf("its share is %v, want %v", s, test.want)
			}
		})
	}
}

func restart(e *Endpoint, sec float64) {
	for i, start := range []float64{1000, 2000} {
		s := page(sec-1+float64(i), 0, 0)
		s.ProcessStart = start
		e.ObserveSignals(s)
	}
}
