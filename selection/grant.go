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
	if c.Lease != nil {
		return Granted
	}
	if !c.AttemptsLeft() {
		c.RetryAt = time.Time{}
		return None
	}
	if c.Settings.Dynamic || len(c.Settings.Members) == 0 {
		return Later
	}
	if c.Settings.Delegated {
		return vacancy(c, now)
	}
	ix := indexOf(c.Pool)
	ch := newChoice(c, ix, now)
	defer ch.free()
	kept, v := ch.grant()
	if v == Granted {
		kept.remember(c, ix, now)
	}
	return v
}

// grant reserves in one critical section. The lock is given back also when a
// scorer panics: one that is broken fails its call and not the pool.
func (ch *choice) grant() (kept, Verdict) {
	ch.call.Pool.Lock()
	defer ch.call.Pool.Unlock()
	ch.addMembers()
	picked, v := ch.reserve()
	return ch.keep(picked), v
}
