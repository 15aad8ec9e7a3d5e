package selection

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Grant chooses an endpoint for the Call among the static upstreams of its
// Settings, and reserves it: the Call then has a Lease and a Decision. Admission
// asks when the Call's turn has come, and asks again after [Full] when a Lease
// has ended, or after [Overloaded] when it has waited. A Call without attempts
// left gets [None]. The verdict is [Later] with dynamic upstreams, and where a policy of
// Caddy's chooses, which wants to see the request.
//
// A Call that holds a Lease already keeps it.
func Grant(c *llmlb.Call, now time.Time) Verdict {
	v, _, _ := place(c, now, false)
	return v
}

// Place is Grant for a Call that can wait: an endpoint that has as much work as
// keeps it busy is not given more. The verdict is then [Busy]. It comes with the
// endpoint that the Call waits for because its prefix is there, nil when it takes
// the first that has room, and with the effort of computing its prompt there.
func Place(c *llmlb.Call, now time.Time) (v Verdict, waitsFor *llmlb.Endpoint, effort int) {
	return place(c, now, true)
}

func place(c *llmlb.Call, now time.Time, hold bool) (v Verdict, waitsFor *llmlb.Endpoint, effort int) {
	c.Held = false
	if c.Lease != nil {
		return Granted, nil, 0
	}
	if !c.AttemptsLeft() {
		c.RetryAt = time.Time{}
		return None, nil, 0
	}
	if c.Settings.Dynamic || len(c.Settings.Members) == 0 {
		return amongKnown(c, now, hold), nil, 0
	}
	if c.Settings.Delegated {
		return vacancy(c, now, hold), nil, 0
	}
	ix := indexOf(c.Pool)
	ch := newChoice(c, ix, now)
	ch.hold = hold
	defer ch.free()
	picked, kept, v := ch.grant()
	switch {
	case v == Granted:
		kept.remember(c, ix, now)
	case v == Busy && picked != nil:
		return v, picked.endpoint, int(ch.effort(picked))
	}
	return v, nil, 0
}

// amongKnown is for upstreams that come and go: Select chooses among those that
// there are by then. What is known of those there were a moment ago is enough to
// hold a Call back while they all have enough to do.
func amongKnown(c *llmlb.Call, now time.Time, hold bool) Verdict {
	if !hold {
		return Later
	}
	ch := newChoice(c, indexOf(c.Pool), now)
	defer ch.free()
	c.Pool.Lock()
	defer c.Pool.Unlock()
	for _, e := range c.Pool.Members(c.Settings) {
		if e.InUse(now) {
			s := ch.addSeat()
			s.endpoint, s.available = e, true
		}
	}
	if len(ch.seats) > 0 && ch.vacant() == Granted && !ch.onlyRoom() {
		return Busy
	}
	return Later
}

// grant reserves in one critical section. The lock is given back also when a
// scorer panics: one that is broken fails its call and not the pool.
func (ch *choice) grant() (*seat, kept, Verdict) {
	ch.call.Pool.Lock()
	defer ch.call.Pool.Unlock()
	ch.addMembers()
	picked, v := ch.reserve()
	if v != Granted {
		return picked, kept{}, v
	}
	return picked, ch.keep(picked), v
}
