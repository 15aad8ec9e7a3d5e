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

// circuitLongest is how many times OpenFor a circuit stays open at most.
const circuitLongest = 8

// circuit takes an endpoint out that accepts calls and does not serve them. What
// cannot even be connected to is the business of reach. Closed, it counts; open,
// the endpoint gets nothing; half-open, it gets one call, whose end decides.
// Pure; under the pool's lock. The zero value is closed.
type circuit struct {
	open    bool
	trial   bool // one call is on its way there to see
	streak  int  // failures since the last success
	silent  bool // all of them were silence
	recent  errorRate
	pause   time.Duration
	trialAt time.Time
	since   time.Time
	reason  string
}

// ended takes in how an attempt ended, and reports whether the circuit opened
// or closed by it. Overload is not sickness, and what a client did says nothing.
func (c *circuit) ended(now time.Time, o Outcome, s Circuit) (changed bool) {
	switch o {
	case Served:
		changed = c.open
		if changed {
			*c = circuit{since: now}
		}
		c.streak, c.silent = 0, false
	case Truncated, EngineError, FirstTokenTimeout:
		c.silent = o == FirstTokenTimeout && (c.streak == 0 || c.silent)
		c.streak++
	default:
		return false
	}
	c.recent.ended(now, o)
	switch {
	case o == Served:
	case c.open && c.trial:
		c.pause = min(2*c.pause, circuitLongest*s.OpenFor)
		c.trialAt = now.Add(c.pause)
	case c.open: // sent before it opened
	case s.Failures > 0 && c.streak >= s.Failures:
		c.trip(now, s, fmt.Sprintf("circuit open: %d failures in a row, the last: %s", c.streak, o))
		return true
	case s.Rate > 0 && c.recent.all >= CircuitLeast && c.recent.failed >= s.Rate*c.recent.all:
		c.trip(now, s, fmt.Sprintf("circuit open: %.0f%% of the latest attempts failed, the last: %s", 100*c.recent.failed/c.recent.all, o))
		return true
	}
	return changed
}

func (c *circuit) trip(now time.Time, s Circuit, reason string) {
	c.open, c.since, c.reason = true, now, reason
	c.pause = s.OpenFor
	c.trialAt = now.Add(c.pause)
}

// bars reports whether the endpoint is to get nothing now.
func (c *circuit) bars(now time.Time) bool {
	return c.open && (c.trial || now.Before(c.trialAt))
}

// begin notes that a call goes there, and reports whether it is the trial.
func (c *circuit) begin(now time.Time) (trial bool) {
	if !c.open || c.bars(now) {
		return false
	}
	c.trial = true
	return true
}

// trialEnded gives the trial's place to another: that call has told what it had
// to tell, if anything.
func (c *circuit) trialEnded() { c.trial = false }
