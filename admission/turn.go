package admission

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/queue"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
)

// turn waits until an endpoint is reserved for the Call, and tells why that will
// not be, if so.
func (x *exchange) turn() *refusal {
	if !x.grants {
		return nil
	}
	c, until := x.call, x.until()
	switch {
	case !x.deadline.IsZero() && !time.Now().Before(x.deadline):
		return x.late()
	case x.outOfUse(until):
		return noEndpoint()
	case !x.handler.queues():
		return x.atOnce()
	}
	w := x.waiter
	if w == nil {
		w = &queue.Waiter{Call: c, Class: x.class, Tenant: c.Tenant, Weight: x.handler.limitsOf(c.Tenant).Weight}
		x.waiter = w
	}
	told := make(chan queue.Entry, 1) // that it is its turn, or why it must leave
	w.Kind, w.Until = selection.Kind(c), until
	w.Ready = func() { told <- queue.Granted }
	w.Out = func(why queue.Entry) { told <- why }
	b := x.bounds()
	began := time.Now()
	switch entry := x.turns.queue.Push(w, b, began); entry {
	case queue.Granted:
		return nil
	case queue.Waiting:
	default:
		return x.turnedAway(entry)
	}
	x.turns.arm(false)
	defer func() { c.Waited += time.Since(began) }()
	if x.pastDeadline() && x.turns.queue.Remove(w, time.Now()) {
		x.turns.arm(false)
		return x.late()
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	heard := queue.Waiting
	select {
	case heard = <-told:
	case <-x.request.Context().Done():
	case <-timer.C:
		x.turns.tick() // a pause may end at this very moment
	}
	waits := x.leave(w)
	x.turns.arm(false) // the next one may have been tried

	if heard == queue.Waiting && len(told) > 0 { // at this very moment
		heard = <-told
	}
	switch {
	case x.gone():
		x.giveBack() // it may have been granted at this very moment
		return clientGone()
	case heard != queue.Waiting && heard != queue.Granted: // another tenant has its place in the queue
		return x.turnedAway(heard)
	case waits:
		return x.inVain()
	}
	return nil
}

// leave takes the Call out of the queue, and reports whether it has no place. One whose
// client is there, and wants an answer still, gets a last chance.
func (x *exchange) leave(w *queue.Waiter) (waits bool) {
	now := time.Now()
	if x.gone() || x.until().Equal(x.deadline) {
		return x.turns.queue.Remove(w, now)
	}
	return x.turns.queue.Last(w, now)
}

// waits reports whether requests like this one may wait.
func (x *exchange) waits() bool { return x.handler.queues() && x.class.MaxWait > 0 }

// bounds are those of the queue. A class that may not wait takes its turn or
// leaves.
func (x *exchange) bounds() queue.Bounds {
	b := queue.Bounds{Calls: x.handler.calls(), Tokens: x.handler.maxTokens()}
	if x.class.MaxWait <= 0 {
		b.Calls = 0
	}
	return b
}

// until is when the Call stops waiting.
func (x *exchange) until() time.Time {
	until := x.call.Arrival.Add(x.class.MaxWait)
	if d := x.deadline; !d.IsZero() && d.Before(until) {
		return d
	}
	return until
}

// outOfUse reports whether every endpoint has been out of use for longer than the
// Call may wait: whoever waits then waits in vain, most likely.
func (x *exchange) outOfUse(until time.Time) bool {
	c := x.call
	now := time.Now()
	since := c.Pool.OutSince(c.Settings, now)
	return !since.IsZero() && now.Sub(since) > until.Sub(c.Arrival)
}

// noneInUse reports whether no endpoint can be used now: a Call that others stood
// before has never asked for one.
func (x *exchange) noneInUse() bool {
	return !x.call.Pool.OutSince(x.call.Settings, time.Now()).IsZero()
}

// pastDeadline reports whether the Call's own deadline will have passed when its
// turn comes, by how fast the queue empties.
func (x *exchange) pastDeadline() bool {
	now := time.Now()
	return !x.deadline.IsZero() && now.Add(x.turns.queue.ExpectedOf(x.waiter, now)).After(x.deadline)
}

// expected is how long a Call like this one would wait now.
func (x *exchange) expected() time.Duration {
	return x.turns.queue.Expected(x.class, x.call.Tenant, time.Now())
}

// atOnce has an endpoint reserved, or says that none can be.
func (x *exchange) atOnce() *refusal {
	switch selection.Grant(x.call, time.Now()) {
	case selection.Full:
		return atCapacity()
	case selection.None:
		return noEndpoint()
	case selection.Overloaded:
		return overloaded(time.Until(x.call.RetryAt))
	default:
		return nil // granted, or Select's to choose
	}
}

// turnedAway is for a Call that must not wait.
func (x *exchange) turnedAway(why queue.Entry) *refusal {
	again := x.expected()
	switch why {
	case queue.Hopeless:
		return overloaded(time.Until(x.call.RetryAt))
	case queue.FullTokens:
		return queueTokens(x.handler.maxTokens(), again)
	default:
		return queueFull(x.bounds().Calls, again)
	}
}

// inVain is for a Call whose time is over.
func (x *exchange) inVain() *refusal {
	w := x.waiter
	switch {
	case w.Answer() == queue.Nowhere, x.noneInUse():
		return noEndpoint()
	case selection.Verdict(w.Why()) == selection.Overloaded:
		return overloaded(time.Until(x.call.RetryAt))
	case x.until().Equal(x.deadline):
		return x.late()
	}
	return queueTimeout(x.class.MaxWait, x.expected())
}

// late is for a Call that cannot begin before its deadline.
func (x *exchange) late() *refusal {
	return deadlinePassed(x.expected())
}

// again reports whether the Call may wait for another turn, after the proxy came
// back without an answer: because all that was left had too much to do, or nobody
// could be reached, or what was free has gone to others. How often does not
// matter: its time counts from its arrival.
func (x *exchange) again() bool {
	c := x.call
	if !x.grants || c.GivenUp() || !x.waits() || x.gone() || !time.Now().Before(x.until()) {
		return false
	}
	switch {
	case c.Unsent():
		return true
	case !c.AttemptsLeft():
		return false
	case c.Crowded:
		return true
	}
	return !c.RetryAt.IsZero() && !c.RetryAt.After(x.until())
}

// A lull is the pause before another turn where the queue knows of none: that
// nobody could be reached is found out in no time, and of upstreams that only the
// proxy knows the queue holds nothing back.
const (
	lullFirst = 100 * time.Millisecond
	lullMost  = time.Second
)

// lull keeps a Call that waits from asking again and again.
func (x *exchange) lull() {
	c := x.call
	if !c.Settings.Dynamic && (!c.Unsent() || !x.knocked) {
		x.knocked = true // the first time says nothing
		return
	}
	x.pause = min(max(lullFirst, 2*x.pause), lullMost)
	began := time.Now()
	at := began.Add(x.pause)
	if c.RetryAt.After(at) && !c.Unsent() { // a server that is down may come up before its next trial
		at = c.RetryAt
	}
	if until := x.until(); at.After(until) {
		at = until
	}
	timer := time.NewTimer(at.Sub(began))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.request.Context().Done():
	}
	c.Waited += time.Since(began)
}

// giveBack ends a reservation that nothing has come of: it was no attempt.
func (x *exchange) giveBack() {
	c := x.call
	if c.Lease != nil {
		c.Lease.End(time.Now())
		c.Lease, c.Learn = nil, nil
	}
}

// readmit makes the Call ready for another turn.
func (x *exchange) readmit() {
	c := x.call
	c.Readmit()
	if k := c.Kept; k != nil {
		k.RetryAfter = 0 // the endpoints will say anew
	}
	x.found.restore(x)
}

// gone reports whether the client has left.
func (x *exchange) gone() bool { return x.request.Context().Err() != nil }
