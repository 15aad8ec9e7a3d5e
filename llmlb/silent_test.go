package llmlb

import (
	"testing"
	"time"
)

// whole begins a call whose answer comes in one piece, with so many uncached
// tokens, of which the first token was predicted to come after a while.
func whole(p *Pool, e *Endpoint, now time.Time, uncached int, predicted time.Duration) *Call {
	c := NewCall(p, p.Current(), now)
	c.InputTokens = uncached
	p.Lock()
	c.Lease = p.Reserve(e, now, Work{Uncached: uncached, Output: 10})
	p.Unlock()
	c.Decision.Predicted = predicted
	c.Begin(e, now)
	return c
}

// A prompt whose first token nobody will see counts as waiting for half of what
// was predicted, and no longer, whether its answer has come by then or not.
func TestSilentCallsAreCountedUntilTheyAreThoughtToDecode(t *testing.T) {
	p, e, _ := withCircuit(t)
	told := 0
	p.OnRoom(func(*Endpoint) { told++ })
	silent := func(sec float64) int {
		s := p.Current()
		p.Lock()
		defer p.Unlock()
		e.Load(at(sec), s)
		n, _ := e.Silent()
		return n
	}
	a := whole(p, e, at(1), 1000, 2*time.Second)
	whole(p, e, at(1), 1000, 4*time.Second)
	if told != 2 {
		t.Errorf("those who wait were told of %d calls that turned out silent, want of both", told)
	}
	if n := silent(1.5); n != 2 {
		t.Errorf("%d calls count as silent after half a second, want 2", n)
	}
	if n := silent(2.1); n != 1 {
		t.Errorf("%d calls count as silent when the first is half through its time, want 1", n)
	}
	a.EndAttempt(at(2.5), Served)
	if n := silent(2.5); n != 1 {
		t.Errorf("%d calls count as silent when the first has ended, want 1 still", n)
	}
	if n := silent(3.1); n != 0 {
		t.Errorf("%d calls count as silent in the end, want none", n)
	}
}

// Nine of ten answers come whole. The one stream among them must not have the
// server look ten times as slow as it is, and where streams run by themselves the
// speed is learned as ever.
func TestWholeAnswersDoNotMakeAServerLookSlow(t *testing.T) {
	p, e, _ := withCircuit(t)
	speed := func() float64 {
		p.Lock()
		defer p.Unlock()
		return e.Speed().Speed
	}
	const real = 20_000.0 // tokens a second
	now := 1.0
	// stream sends one, with so many others sent at once before and after it that
	// it waits for, and that end when it does.
	stream := func(others int) {
		start := now
		var list []*Call
		for range others {
			list = append(list, whole(p, e, at(start), 2000, 10*time.Second))
		}
		c := NewCall(p, p.Current(), at(start))
		c.InputTokens, c.Stream = 2000, true
		p.Lock()
		c.Lease = p.Reserve(e, at(start), Work{Uncached: 2000, Output: 10})
		p.Unlock()
		c.Begin(e, at(start))
		for range others {
			list = append(list, whole(p, e, at(start+0.01), 2000, 10*time.Second))
		}
		now = start + 0.05 + float64(1+2*others)*2000/real
		c.SawFirstToken(at(now))
		for _, c := range append(list, c) {
			c.EndAttempt(at(now), Served)
		}
		now++
	}
	for range 30 {
		stream(0)
	}
	before := speed()
	if before < 0.5*real || before > 2*real {
		t.Fatalf("learned %.0f tokens a second of streams alone, want about %.0f", before, real)
	}
	for range 30 {
		stream(5)
	}
	if after := speed(); after < 0.9*before {
		t.Errorf("learned %.0f tokens a second while others' answers came whole, want %.0f as before", after, before)
	}
}
