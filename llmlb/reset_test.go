package llmlb

import (
	"slices"
	"testing"
)

// An operator who has mended a server need not wait for its circuit, nor for what it
// asked for when it had too much to do.
func TestReset(t *testing.T) {
	for name, test := range map[string]struct {
		ill  func(*Pool, *Endpoint)
		then State // right after the reset
	}{
		"open circuit": {func(p *Pool, e *Endpoint) { fail(p, e, 1, 5, EngineError) }, Up},
		"overloaded":   {func(_ *Pool, e *Endpoint) { e.NoteOverload(at(1), MaxRetryAfter) }, Up},
		"unreachable": {func(_ *Pool, e *Endpoint) {
			for range downAfter {
				e.NotReached(at(1), "connection refused")
			}
		}, Down}, // until the trial has shown more
		"draining": {func(_ *Pool, e *Endpoint) { e.Drain(at(1), DrainOrder{}) }, Draining},
		"well":     {func(*Pool, *Endpoint) {}, Up},
	} {
		t.Run(name, func(t *testing.T) {
			p, e, _ := withCircuit(t)
			told := false
			p.OnRoom(func(x *Endpoint) { told = told || x == e })
			early := send(p, e, 0)
			test.ill(p, e)
			told = false
			e.Reset(at(2))
			if s := stateAt(e, 2); s != test.then {
				t.Errorf("it is %s, want %s", s, test.then)
			}
			if down(e, 2) {
				t.Error("it gets nothing, not even a trial")
			}
			if !told {
				t.Error("those who wait do not hear of it")
			}
			early.EndAttempt(at(3), EngineError)
			fail(p, e, 3, 4, EngineError)
			if phase := p.Status(at(3)).Endpoints[0].Circuit; phase != "closed" {
				t.Error("failures from before the reset still count")
			}
		})
	}
}

// The change is told like any other.
func TestResetIsTold(t *testing.T) {
	p, e, news := withCircuit(t)
	fail(p, e, 1, 5, EngineError)
	*news = nil
	e.Reset(at(2))
	if want := []string{"down > up"}; !slices.Equal(*news, want) {
		t.Errorf("told %q, want %q", *news, want)
	}
}
