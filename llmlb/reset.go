package llmlb

import "time"

// Reset is an operator's word that the endpoint is well again: its circuit closes,
// what it has asked for in the way of pauses is forgotten, and one that could not be
// reached gets a trial at once. What checks say of it stands, as does a drain. How
// attempts end that were begun before says nothing any more.
func (e *Endpoint) Reset(now time.Time) {
	e.change(now, func() {
		e.circuit.reset(now)
		e.errors, e.overload = errorRate{}, overload{}
		e.ledger.phantom = phantom{}
		if e.reach.down {
			e.reach.pause, e.reach.trialAt = trialFirst, now
		}
	})
	e.pool.roomAt(e) // a trial is due, which is no change of state
}
