package llmlb

import (
	"fmt"
	"time"
)

// State is what an endpoint may be used for.
type State uint8

// The states. Unknown health is Up, unless the operator wants a check passed
// first: a gateway that has just started must not refuse work because nobody has
// looked yet.
const (
	Up       State = iota
	Down           // unreachable, failing its checks, or its circuit is open; gets nothing but a trial now and then
	Draining       // takes nothing new, lets its streams finish
	Drained        // draining, and nothing runs there any more
	Overload       // has said that it has too much to do; well, and gets nothing new for a moment
	Starting       // not ready yet: it loads its model, sleeps, or has to pass a check first
	Degraded       // serves, but far slower than it used to when idle; gets a smaller share
	states
)

var stateNames = [states]string{"up", "down", "draining", "drained", "overloaded", "starting", "degraded"}

// String returns the name used in tables, logs and metrics.
func (s State) String() string {
	if s >= states {
		return "unknown"
	}
	return stateNames[s]
}

// States lists every state, in order.
func States() []State {
	list := make([]State, states)
	for s := range states {
		list[s] = s
	}
	return list
}

// Change is one change of an endpoint's state.
type Change struct {
	Endpoint *Endpoint
	From, To State
	Reason   string
	At       time.Time
}

// State returns the state, why, and since when. Under the pool's lock.
func (e *Endpoint) State(now time.Time) (State, string, time.Time) {
	s := e.pool.current()
	if e.drain.on() {
		if e.idle(now, s) {
			return Drained, "", e.drain.at
		}
		return Draining, e.drain.reason(now, e.leases), e.drain.at
	}
	if e.removed() {
		return Draining, fmt.Sprintf("no longer configured; %d open here", e.leases), time.Time{}
	}
	switch {
	case e.reach.down:
		return Down, e.reach.reason, e.reach.since
	case e.circuit.open:
		return Down, e.circuit.reason, e.circuit.since
	case e.alive.out(s):
		return Down, "readiness: " + e.alive.reason, e.alive.since
	case e.generating.out(s):
		return Down, "canary: " + e.generating.reason, e.generating.since
	}
	if reason, since, starting := e.Starting(s); starting {
		return Starting, reason, since
	}
	if s != nil && e.Asleep(now, s) {
		return Starting, "asleep: the engine has offloaded its weights", e.ledger.asleepSince
	}
	if reason, since, busy := e.overloadState(now, s); busy {
		return Overload, reason, since
	}
	if e.generating.slow(s) {
		return Degraded, e.generating.slowReason, e.generating.slowSince
	}
	since := e.reach.since
	for _, t := range []time.Time{e.circuit.since, e.alive.since, e.generating.since, e.drain.resumed} {
		if t.After(since) {
			since = t
		}
	}
	return Up, "", since
}

// idle reports whether nothing runs there, as far as is known: neither of ours
// nor of others, by a scrape that was made after the endpoint began to drain. Of one
// that is no longer scraped, or has stopped, only our own are known. Under the
// pool's lock.
func (e *Endpoint) idle(now time.Time, s *Settings) bool {
	sig := &e.ledger.signals
	switch {
	case e.leases > 0:
		return false
	case s == nil || !sig.HasLoad() || now.Sub(sig.At) >= s.Scrape.StaleAfter:
		return true
	}
	return !sig.At.Before(e.drain.at) && sig.Running <= 0 && sig.Waiting <= 0
}

// change runs f under the pool's lock, and tells if the endpoint's state has
// changed by it. An overload passes by itself, and an engine at its limit says so
// several times a second: of that Pool.Notice tells, which is asked less often.
func (e *Endpoint) change(now time.Time, f func()) {
	e.pool.mu.Lock()
	from, _, _ := e.State(now)
	f()
	e.touch()
	to, reason, _ := e.State(now)
	e.enter(from, to, now)
	told := e.told
	tell := to != told && !(told.usable() && to.usable() && (told == Overload || to == Overload))
	if tell {
		e.enter(told, to, now) // by new settings, perhaps, which nobody has told of
		e.told, e.toldAt = to, now
	}
	e.pool.mu.Unlock()
	if tell {
		e.pool.changed(Change{Endpoint: e, From: told, To: to, Reason: reason, At: now})
	}
	if from != to {
		e.pool.roomAt(e)
	}
}

// enter notes what a new state brings with it. Under the pool's lock.
func (e *Endpoint) enter(from, to State, now time.Time) {
	back := from == Down || from == Starting || from == Drained
	if back && to.usable() && now.Sub(e.pool.begun) > together { // else the pool begins
		e.warmFrom = now
		e.touch()
	}
}

// usable reports whether an endpoint in that state is well.
func (s State) usable() bool { return s == Up || s == Degraded || s == Overload }

// Notice looks at every endpoint for changes that come with nothing but time, and
// tells of them: a server that has drained, an overload that began or is over. It
// cuts what is left where a drain order says so. Call it about once a second.
func (p *Pool) Notice(now time.Time) {
	var list []Change
	p.mu.Lock()
	for _, e := range p.order {
		e.drain.overdue(now)
		to, reason, _ := e.State(now)
		if to == e.told {
			continue
		}
		e.enter(e.told, to, now)
		list = append(list, Change{Endpoint: e, From: e.told, To: to, Reason: reason, At: now})
		e.told, e.toldAt = to, now
	}
	p.mu.Unlock()
	for _, c := range list {
		p.changed(c)
		p.roomAt(c.Endpoint)
	}
}
