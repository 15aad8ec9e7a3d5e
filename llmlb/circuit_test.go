package llmlb

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var usualCircuit = Circuit{Failures: DefaultCircuitFailures, Rate: DefaultCircuitRate, OpenFor: DefaultCircuitOpenFor}

func repeated(n int, o Outcome) []Outcome {
	list := make([]Outcome, n)
	for i := range list {
		list[i] = o
	}
	return list
}

// A server that fails what it accepts is taken out; one that is busy, that
// refuses nonsense, or whose clients leave, is not.
func TestWhatOpensACircuit(t *testing.T) {
	for _, tc := range []struct {
		name   string
		s      Circuit
		ended  []Outcome
		every  float64 // seconds
		reason string  // "" when it stays closed
	}{
		{"nothing", usualCircuit, nil, 0, ""},
		{"four failures", usualCircuit, repeated(4, EngineError), 1, ""},
		{"five failures", usualCircuit, repeated(5, EngineError), 1, "circuit open: 5 failures in a row, the last: engine_error"},
		{"five of different kinds", usualCircuit, []Outcome{Truncated, EngineError, FirstTokenTimeout, Truncated, FirstTokenTimeout}, 60, "circuit open: 5 failures in a row, the last: first_token_timeout"},
		{"a success in between", usualCircuit, append(append(repeated(4, EngineError), Served), repeated(4, EngineError)...), 1, ""},
		{"overloaded ten times", usualCircuit, repeated(10, Overloaded), 0.1, ""},
		{"overloaded in between", usualCircuit, append(append(repeated(4, EngineError), repeated(10, Overloaded)...), EngineError), 1, "circuit open: 5 failures"},
		{"thirty clients that left", usualCircuit, repeated(30, ClientGone), 0.1, ""},
		{"what reach counts", usualCircuit, repeated(30, Unreachable), 0.1, ""},
		{"every second of nineteen", usualCircuit, halves(19), 0, ""},
		{"every second of twenty", usualCircuit, halves(20), 0, "circuit open: 50% of the latest attempts failed, the last: truncated"},
		{"every second, too rarely", usualCircuit, halves(60), 5, ""},
		{"one of three", usualCircuit, thirds(90), 0.1, ""},
		{"failures off", Circuit{Rate: 0.5, OpenFor: time.Second}, repeated(19, EngineError), 0, ""},
		{"failures off, all of twenty", Circuit{Rate: 0.5, OpenFor: time.Second}, repeated(20, EngineError), 0, "circuit open: 100%"},
		{"rate off", Circuit{Failures: 5, OpenFor: time.Second}, halves(60), 0, ""},
		{"the first", Circuit{Failures: 1, OpenFor: time.Second}, repeated(1, Truncated), 0, "circuit open: 1 failure, the last: truncated"},
		{"off", Circuit{}, repeated(100, EngineError), 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c circuit
			now := 0.0
			for i, o := range tc.ended {
				if changed := c.ended(at(now), at(now), false, o, tc.s); changed != (c.open && i == len(tc.ended)-1) {
					t.Fatalf("attempt %d: changed %v, open %v", i, changed, c.open)
				}
				now += tc.every
			}
			if c.open != (tc.reason != "") || !strings.HasPrefix(c.reason, tc.reason) {
				t.Errorf("open %v: %q, want %q", c.open, c.reason, tc.reason)
			}
		})
	}
}

func halves(n int) []Outcome {
	list := repeated(n, Served)
	for i := 1; i < n; i += 2 {
		list[i] = Truncated
	}
	return list
}

func thirds(n int) []Outcome {
	list := repeated(n, Served)
	for i := 2; i < n; i += 3 {
		list[i] = EngineError
	}
	return list
}

func opened(sec float64) *circuit {
	c := new(circuit)
	for range DefaultCircuitFailures {
		c.ended(at(sec), at(sec), false, EngineError, usualCircuit)
	}
	return c
}

// One call sees whether the server serves again. Each failure doubles the pause,
// within bounds; a success lets everybody through.
func TestTrialsOfAnOpenCircuit(t *testing.T) {
	c := opened(0)
	now := 0.0
	for i, pause := range []float64{10, 20, 40, 80, 80, 80} {
		if c.begin(at(now+pause-0.001)) != 0 || c.phase(at(now+pause-0.001)) != CircuitOpen {
			t.Fatalf("trial %d comes before %v s have passed", i, pause)
		}
		now += pause
		if got := c.phase(at(now)); got != CircuitHalfOpen {
			t.Fatalf("the circuit is %v when the trial is due", got)
		}
		trial := c.begin(at(now))
		if trial == 0 || c.begin(at(now)) != 0 || !c.bars(at(now)) || c.phase(at(now)) != CircuitHalfOpen {
			t.Fatalf("trial %d: number %d, and another was let through", i, trial)
		}
		c.ended(at(now), at(now), true, FirstTokenTimeout, usualCircuit)
		c.over(trial)
	}
	now += 80
	trial := c.begin(at(now))
	if !c.ended(at(now+1), at(now), true, Served, usualCircuit) || c.open || c.bars(at(now+1)) {
		t.Error("still open after a trial that was served")
	}
	c.over(trial)
	for i := range DefaultCircuitFailures {
		if c.open {
			t.Fatalf("open again after %d failures: the old ones count", i)
		}
		c.ended(at(now+2), at(now+2), false, EngineError, usualCircuit)
	}
	if !c.open || !c.bars(at(now+11.9)) || c.bars(at(now+12)) {
		t.Error("opened again, its pause is not the first one")
	}
}

// A trial whose client leaves, or that the server has no room for, has told
// nothing: the next call is the trial.
func TestATrialThatTellsNothing(t *testing.T) {
	for _, o := range []Outcome{ClientGone, Overloaded, Refused} {
		c := opened(0)
		trial := c.begin(at(10))
		if c.ended(at(11), at(10), true, o, usualCircuit) {
			t.Errorf("%v changes the circuit", o)
		}
		c.over(trial)
		if c.bars(at(11)) || c.begin(at(11)) == 0 {
			t.Errorf("after %v no other trial is let through", o)
		}
	}
	c := opened(0)
	trial := c.begin(at(10))
	c.ended(at(11), at(10), true, Unreachable, usualCircuit)
	c.over(trial)
	if !c.bars(at(30.9)) || c.bars(at(31)) {
		t.Error("a trial that could not connect does not count as failed")
	}
}

// Streams that were lost together end one after the other, for a minute. They
// neither open the circuit again after a trial has closed it, nor does one that
// went well before close it.
func TestWhatWasSentBeforeTheLastChangeTellsNothing(t *testing.T) {
	c := opened(5)
	if c.ended(at(6), at(1), false, Served, usualCircuit) || !c.open {
		t.Error("closed by a stream that was begun before it opened")
	}
	trial := c.begin(at(15))
	c.ended(at(16), at(15), true, Served, usualCircuit)
	c.over(trial)
	for i := range 25 {
		if c.ended(at(17+float64(i)), at(2), false, FirstTokenTimeout, usualCircuit) {
			t.Fatal("opened again by calls that were sent before it closed")
		}
	}
	// The only endpoint of a pool gets work with its circuit open, too.
	c = opened(5)
	if !c.ended(at(7), at(6), false, Served, usualCircuit) || c.open {
		t.Error("still open though a call sent since was served")
	}
}

// A long answer need not end before the next call may go: when it has streamed
// for as long as the circuit was open, one more is let through.
func TestATrialThatStreamsLetsAnotherThrough(t *testing.T) {
	c := opened(0)
	first := c.begin(at(10))
	c.showed(first, at(11))
	if !c.bars(at(20.9)) || c.bars(at(21)) {
		t.Fatal("another is let through before the trial has streamed for 10 s, or never")
	}
	second := c.begin(at(21))
	if second == 0 || c.begin(at(21)) != 0 {
		t.Fatal("want one more, and one only")
	}
	c.over(first) // its place is not the second's
	if !c.bars(at(22)) {
		t.Error("the end of the first trial has let a third through")
	}
	c.over(second)
	if c.bars(at(22)) {
		t.Error("barred though no trial is under way")
	}
}

// An answer that comes whole shows nothing until it is there. It keeps the trial's
// place for a while, and not for as long as it takes.
func TestATrialThatShowsNothingDoesNotKeepItsPlaceForEver(t *testing.T) {
	c := opened(0)
	now := c.trialAt
	if stream := c.begin(now); !c.bars(now.Add(time.Hour)) {
		t.Error("a stream lost its place, which has a deadline of its own")
	} else {
		c.over(stream)
	}
	first := c.begin(now)
	c.isQuiet(first)
	if first == 0 || !c.bars(now.Add(trialLongest-time.Second)) {
		t.Fatal("the trial has no place of its own")
	}
	now = now.Add(max(c.openFor, trialLongest))
	second := c.begin(now)
	if second == 0 || second == first {
		t.Fatalf("trial %d follows trial %d, which has shown nothing for %v", second, first, max(c.openFor, trialLongest))
	}
	c.over(first)
	if !c.bars(now) {
		t.Error("the end of the first trial frees the place of the second")
	}
}

// Whatever happens in whatever order: never two trials that show nothing, never
// a pause beyond the longest, and when all is over an open circuit takes a trial.
func TestCircuitInvariants(t *testing.T) {
	all := Outcomes()
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			s := Circuit{Failures: random.IntN(4), Rate: float64(random.IntN(3)) / 2, OpenFor: time.Duration(1+random.IntN(20)) * time.Second}
			type call struct {
				start  time.Time
				number uint64
			}
			var c circuit
			var open []call
			now := t0
			for range 400 {
				now = now.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
				was := c.open
				switch n := random.IntN(10); {
				case n < 5 && (random.IntN(3) > 0 && !c.bars(now) || random.IntN(4) == 0): // one in a while goes there all the same
					trials := 0
					for _, o := range open {
						if o.number != 0 && o.number == c.trial && c.tokens.IsZero() && !(c.quiet && now.Sub(o.start) >= max(s.OpenFor, trialLongest)) {
							trials++
						}
					}
					number := c.begin(now)
					if number != 0 && (trials > 0 || !was || now.Before(c.trialAt)) {
						t.Fatalf("a trial is let through beside %d others, open %v, due %v", trials, was, c.trialAt.Sub(now))
					}
					open = append(open, call{now, number})
				case n == 5 && len(open) > 0:
					c.showed(open[random.IntN(len(open))].number, now)
				case n == 6 && len(open) > 0 && random.IntN(2) == 0:
					c.isQuiet(open[random.IntN(len(open))].number)
				case n == 6 && random.IntN(20) == 0:
					c.reset(now)
				case len(open) > 0:
					i := random.IntN(len(open))
					o := open[i]
					open = append(open[:i], open[i+1:]...)
					changed := c.ended(now, o.start, o.number != 0, all[random.IntN(len(all))], s)
					if changed != (was != c.open) {
						t.Fatalf("changed %v, but open %v, then %v", changed, was, c.open)
					}
					if o.number != 0 {
						c.over(o.number)
					}
				}
				if c.open && (c.pause < s.OpenFor || c.pause > circuitLongest*s.OpenFor || c.trialAt.Sub(now) > c.pause) {
					t.Fatalf("a pause of %v, %v to go; OpenFor is %v", c.pause, c.trialAt.Sub(now), s.OpenFor)
				}
			}
			for _, o := range open {
				if o.number != 0 {
					c.over(o.number)
				}
			}
			if now = now.Add(circuitLongest * s.OpenFor); c.open && c.begin(now) == 0 {
				t.Error("the place of a trial was lost")
			}
		})
	}
}
