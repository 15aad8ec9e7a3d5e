package llmlb

import (
	"math"
	"time"
)

// Down reports whether the endpoint is out of use: it cannot be reached, or its
// circuit is open, and it is not due for a trial. Under the pool's lock.
func (e *Endpoint) Down(now time.Time) bool {
	return e.reach.down && !e.reach.trial(now) || e.circuit.bars(now)
}

// Gone reports whether nobody could reach the endpoint of late, and it is too
// early to ask again even for a call that has no other. Under the pool's lock.
func (e *Endpoint) Gone(now time.Time) bool { return e.reach.down && !e.reach.knock(now) }

// TrialDue reports whether the endpoint is down and its time has come to get one
// call, and since when. Under the pool's lock.
func (e *Endpoint) TrialDue(now time.Time) (since time.Time, due bool) {
	if e.Down(now) || !e.reach.down && !e.circuit.open {
		return time.Time{}, false
	}
	if e.reach.down {
		since = e.reach.trialAt
	}
	if e.circuit.open && e.circuit.trialAt.After(since) {
		since = e.circuit.trialAt
	}
	return since, true
}

// Circuit returns how far the endpoint's circuit lets calls through. Under the
// pool's lock.
func (e *Endpoint) Circuit(now time.Time) CircuitPhase { return e.circuit.phase(now) }

// retry says when a down or overloaded endpoint gets work again, and in words
// what happens then. The moment is zero when it gets some now, or none is known.
func (e *Endpoint) retry(now time.Time) (at time.Time, words string) {
	if e.drain.on() {
		return time.Time{}, ""
	}
	switch {
	case e.circuit.open && e.circuit.trial != 0:
		return time.Time{}, "trial under way"
	case e.reach.down || e.circuit.open:
		at, words = e.circuit.trialAt, "trial"
		if !e.circuit.open || e.reach.down && e.reach.trialAt.After(at) {
			at = e.reach.trialAt
		}
	default:
		until, busy := e.Overloaded(now)
		if !busy {
			return time.Time{}, ""
		}
		at, words = until, "new work"
	}
	if !now.Before(at) {
		return time.Time{}, words + " due"
	}
	return at, words + " in " + inWords(at.Sub(now))
}

// inWords rounds up, so that nothing is said to come in no time: to tenths of a
// second, and to whole ones from three on.
func inWords(d time.Duration) string {
	unit := time.Second
	if d < 3*time.Second {
		unit = 100 * time.Millisecond
	}
	return (time.Duration(math.Ceil(float64(d)/float64(unit))) * unit).String()
}

// Reached notes that the endpoint answered an attempt or a scrape with
// anything at all. It says nothing of its circuit: what answers may still not
// serve.
func (e *Endpoint) Reached(now time.Time) {
	if e.sound.Load() {
		return // known, and each answer says so
	}
	e.change(now, func() {
		e.reach.ok(now)
		e.sound.Store(true)
	})
}

// NotReached notes that a connection to the endpoint could not be made. The
// reason must be short and fit for an operator's table.
func (e *Endpoint) NotReached(now time.Time, reason string) {
	e.change(now, func() {
		e.sound.Store(false)
		if e.reach.failed(now, reason) {
			e.alive.gone(now)
		}
		if e.reach.down {
			e.lose(now)
		}
	})
}

// counts reports whether the end of an attempt says anything of the endpoint's
// engine. What the client is told for its own mistakes, and that an engine cannot
// do what was asked, says nothing; and what fails in the same way at one server
// after the other says more of the request. A trial always counts.
func (c *Call) counts(o Outcome) bool {
	const badRequest, internalError = 400, 500
	if c.Status >= badRequest && (c.Status < internalError || o == Served) {
		return false
	}
	switch o {
	case Truncated, EngineError, FirstTokenTimeout:
		again := c.failedAs&(1<<o) != 0
		c.failedAs |= 1 << o
		return !again || c.Lease.trial != 0
	default:
		return true
	}
}

// ended counts the end of the Call's attempt here.
func (e *Endpoint) ended(now time.Time, c *Call, o Outcome) {
	e.outcomes[o].Add(1)
	e.change(now, func() {
		if e.drain.cuts(c.Lease.start) {
			return // an operator's doing
		}
		if o.Failed() {
			e.ledger.phantom.fail(now, c.Lease.Uncached())
		}
		e.errors.ended(now, o)
		if !c.counts(o) {
			return
		}
		switch {
		case o == Served:
			e.servedAt = now
			if g := &e.generating; !g.failed || !c.Lease.start.Before(g.since) {
				g.pass(now) // an answer begun before says nothing of what came since
			}
		case o.Failed():
			e.failedAt = now
		}
		switch changed := e.circuit.ended(now, c.Lease.start, c.Lease.trial != 0, o, c.Settings.circuit()); {
		case changed && e.circuit.open:
			e.openings.Add(1)
		case changed:
			e.ledger.phantom = phantom{} // it has shown that it serves
		}
		if o == Served {
			e.overload.served()
			e.Progressed(now)
		}
		if e.circuit.open && e.circuit.silent && e.circuit.streak >= downAfter {
			e.lose(now)
		}
	})
}
