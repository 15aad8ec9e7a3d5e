package llmlb

import (
	"math"
	"testing"
	"time"
)

func TestFailuresLookLikeLoadForAWhile(t *testing.T) {
	p := NewPool("phantom")
	s := bound(t, p, Member{Address: "a:1"})
	e := s.Members[0].Endpoint
	load := func(sec float64) float64 {
		p.Lock()
		defer p.Unlock()
		return e.Load(at(sec), s).PrefillTokens
	}
	end := func(sec float64, o Outcome) {
		c := NewCall(p, s, at(sec))
		c.InputTokens = 10
		c.Lease = take(p, e, at(sec))
		c.EndAttempt(at(sec), o)
	}
	end(0, Served)
	end(0, ClientGone)
	if got := load(0); got != 0 {
		t.Errorf("%v tokens after good ends, want none", got)
	}
	end(0, EngineError)
	end(0, Unreachable)
	if got := load(0); got != 2*phantomLeast {
		t.Errorf("%v tokens after two failures, want %v", got, 2*phantomLeast)
	}
	if got := load(phantomHalf.Seconds()); math.Abs(got-phantomLeast) > 1 {
		t.Errorf("%v tokens after %v, want half", got, phantomHalf)
	}
	if got := load((20 * phantomHalf).Seconds()); got != 0 {
		t.Errorf("%v tokens after a long time, want none", got)
	}
}

func TestOneFailureCountsNoMoreThanOnePrompt(t *testing.T) {
	var p phantom
	p.fail(t0, 1<<30)
	if got := p.left(t0); got != maxPrompt {
		t.Errorf("%v tokens, want %v", got, maxPrompt)
	}
	if got := p.left(t0.Add(-time.Hour)); got != maxPrompt {
		t.Errorf("%v tokens by a clock that went back, want %v", got, maxPrompt)
	}
}

// A server that failed a hundred requests and then serves its trial is no worse
// than the others; while it still fails, its burden has a bound.
func TestWhatAHundredFailuresLeaveEndsWithTheTrial(t *testing.T) {
	p, e, _ := withCircuit(t)
	fail(p, e, 0, 100, EngineError)
	left := func(sec float64) float64 {
		p.Lock()
		defer p.Unlock()
		return e.ledger.phantom.left(at(sec))
	}
	if got := left(0); got != phantomMost {
		t.Errorf("%v tokens after a hundred failures, want %v", got, phantomMost)
	}
	for sec := 1.0; down(e, sec); sec++ {
		if sec > 100 {
			t.Fatal("there is no trial")
		}
		if !down(e, sec+1) {
			send(p, e, sec+1).EndAttempt(at(sec+2), Served)
			if got := left(sec + 2); got != 0 {
				t.Errorf("%v tokens after the trial was served, want none", got)
			}
			return
		}
	}
	t.Error("the circuit was never open")
}
