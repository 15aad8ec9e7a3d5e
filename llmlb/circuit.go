package llmlb

import (
	"fmt"
	"time"
)

// Circuit says when an endpoint's failures take it out of use, and for how long.
// The zero value never does.
type Circuit struct {
	// Failures is how many attempts must fail in a row. 0 is off.
	Failures int

	// Rate is the share, 0 to 1, of the latest attempts that must fail. It asks
	// for CircuitLeast attempts at least. 0 is off.
	Rate float64

	// OpenFor is how long the endpoint gets nothing before one call is sent
	// there as a trial. It doubles with each trial that fails, up to eight
	// times.
	OpenFor time.Duration
}

// Defaults of the circuit, as documented in docs/caddyfile.md.
const (
	DefaultCircuitFailures = 5
	DefaultCircuitRate     = 0.5
	DefaultCircuitOpenFor  = 10 * time.Second

	// CircuitLeast is how many attempts, fading by half in 30 s, a rate is made
	// of at least.
	CircuitLeast = 20
)

// on reports whether failures can take an endpoint out.
func (s Circuit) on() bool { return s.Failures > 0 || s.Rate > 0 }

// CircuitPhase is how far an endpoint's circuit lets calls through.
type CircuitPhase uint8

// The phases.
const (
	CircuitClosed   CircuitPhase = iota // all of them
	CircuitOpen                         // none
	CircuitHalfOpen                     // one, as a trial
	circuitPhases
)

var circuitNames = [circuitPhases]string{"closed", "open", "half-open"}

// String returns the name used in tables and metrics.
func (p CircuitPhase) String() string {
	if p >= circuitPhases {
		return "unknown"
	}
	return circuitNames[p]
}

// CircuitPhases lists every phase, in order.
func CircuitPhases() []CircuitPhase {
	return []CircuitPhase{CircuitClosed, CircuitOpen, CircuitHalfOpen}
}

// circuitLongest is how many times OpenFor a circuit stays open at most.
const circuitLongest = 8

// trialLongest is how long a trial that shows no tokens keeps others away at least.
const trialLongest = 15 * time.Second

// circuit takes an endpoint out that accepts calls and does not serve them. What
// cannot even be connected to is the business of reach. Closed, it counts; open,
// the endpoint gets nothing; half-open, it gets one call, whose end decides.
//
// What an attempt tells counts only if it was begun after the circuit last
// opened or closed. Of thirty streams that a server loses at once the last may
// end a minute later, and they say nothing of what it is now.
//
// Pure; under the pool's lock. The zero value is closed.
type circuit struct {
	open    bool
	since   time.Time // when it last opened or closed
	reason  string    // why it is open
	openFor time.Duration
	pause   time.Duration // from one trial that fails to the next
	trialAt time.Time

	trial  uint64    // the call on its way there to see, 0 for none
	trials uint64    // how many there were ever: their numbers are never used again
	began  time.Time // when the trial was sent
	quiet  bool      // it will show no tokens
	tokens time.Time // since when the trial has shown tokens

	streak int  // failures since the last success
	silent bool // all of them were silence
	recent errorRate
}

// reset closes the circuit and forgets all failures.
func (c *circuit) reset(now time.Time) { *c = circuit{since: now, trials: c.trials} }

// ended takes in how an attempt that was begun at start ended, and reports
// whether the circuit opened or closed by it. Overload is not sickness, and what
// a client did says nothing.
func (c *circuit) ended(now, start time.Time, trial bool, o Outcome, s Circuit) (changed bool) {
	if start.Before(c.since) {
		return false
	}
	switch o {
	case Served:
		if changed = c.open; changed {
			c.reset(now)
		}
		c.streak, c.silent = 0, false
		c.recent.ended(now, o)
		return changed
	case Truncated, EngineError, FirstTokenTimeout:
		c.silent = o == FirstTokenTimeout && (c.streak == 0 || c.silent)
		c.streak++
		c.recent.ended(now, o)
	case Unreachable:
		// Not to be counted twice, and no good trial either.
	default:
		return false
	}
	switch {
	case !s.on():
	case c.open && trial:
		c.pause = max(c.openFor, min(2*c.pause, circuitLongest*c.openFor))
		c.trialAt = now.Add(c.pause)
	case c.open, o == Unreachable:
	case s.Failures > 0 && c.streak >= s.Failures:
		c.trip(now, s, fmt.Sprintf("circuit open: %s, the last: %s", inARow(c.streak), o))
		return true
	case s.Rate > 0 && c.recent.all >= CircuitLeast && c.recent.failed >= s.Rate*c.recent.all:
		c.trip(now, s, fmt.Sprintf("circuit open: %.0f%% of the latest attempts failed, the last: %s", 100*c.recent.failed/c.recent.all, o))
		return true
	}
	return false
}

func inARow(n int) string {
	if n == 1 {
		return "1 failure"
	}
	return fmt.Sprintf("%d failures in a row", n)
}

func (c *circuit) trip(now time.Time, s Circuit, reason string) {
	c.open, c.since, c.reason = true, now, reason
	c.openFor, c.pause = s.OpenFor, s.OpenFor
	c.trialAt = now.Add(c.pause)
}

// bars reports whether the endpoint is to get nothing now. While a trial is on
// its way nobody follows it; but one that has streamed for as long as the circuit
// was open at first shows that the endpoint does something again, and need not
// come to its end before the next may go. An answer that comes whole, and shows
// nothing before, keeps its place no longer than trialLongest; of a stream the
// first-token deadline makes an end.
func (c *circuit) bars(now time.Time) bool {
	return c.open && (c.trial != 0 && c.keeps(now) || now.Before(c.trialAt))
}

// keeps reports whether the trial still has its place.
func (c *circuit) keeps(now time.Time) bool {
	switch {
	case !c.tokens.IsZero():
		return now.Sub(c.tokens) < c.openFor
	case c.quiet:
		return now.Sub(c.began) < max(c.openFor, trialLongest)
	}
	return true
}

// begin notes that a call goes there. It returns the number of the trial that
// the call is, 0 when it is none.
func (c *circuit) begin(now time.Time) (trial uint64) {
	if !c.open || c.bars(now) {
		return 0
	}
	c.trials++
	c.trial, c.began, c.quiet, c.tokens = c.trials, now, false, time.Time{}
	return c.trial
}

// showed notes that the trial has brought its first token.
func (c *circuit) showed(trial uint64, now time.Time) {
	if trial != 0 && trial == c.trial {
		c.tokens = now
	}
}

// isQuiet notes that the trial will show no tokens.
func (c *circuit) isQuiet(trial uint64) {
	if trial != 0 && trial == c.trial {
		c.quiet = true
	}
}

// over gives the trial's place to another: that call has told what it had to
// tell, if anything.
func (c *circuit) over(trial uint64) {
	if trial == c.trial {
		c.trial, c.tokens = 0, time.Time{}
	}
}

// phase returns how far it lets calls through.
func (c *circuit) phase(now time.Time) CircuitPhase {
	switch {
	case !c.open:
		return CircuitClosed
	case c.trial == 0 && now.Before(c.trialAt):
		return CircuitOpen
	}
	return CircuitHalfOpen
}
