package selection

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Grant chooses an endpoint for the Call among the static upstreams of its
// Settings, and reserves it: the Call then has a Lease and a Decision. Admission
// asks when the Call's turn has come, and asks again after [Full] when a Lease
// has ended. With dynamic upstreams the verdict is [Later].
//
// A Call that holds a Lease already keeps it.
func Grant(c *llmlb.Call, now time.Time) Verdict {
	if c.Lease != nil {
		return Granted
	}
	if c.Settings.Dynamic || len(c.Settings.Members) == 0 {
		return Later
	}
	ix := indexOf(c.Pool)
	ch := newChoice(c, ix, now)
	defer ch.free()
	c.Pool.Lock()
	ch.addMembers()
	picked, v := ch.reserve()
	kept := ch.keep(picked)
	c.Pool.Unlock()
	if v == Granted {
		kept.remember(c, ix, now)
	}
	return v
}
