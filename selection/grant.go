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
	_, v := ch.reserve()
	var cache uint32
	if v == Granted {
		cache = c.Lease.Endpoint().CacheID()
	}
	c.Pool.Unlock()
	if v == Granted {
		remember(c, ix, cache, now)
	}
	return v
}

// maxLearned bounds how much of one prompt is remembered, and so how long the
// index is locked for it: four megabytes, or a million tokens, which is more
// than engines take.
const maxLearned = 4096

// remember marks the Call's blocks as about to be computed at its endpoint, and
// has the first token make that a fact. The cache is the one that the engine
// had when the Call was sent: should it restart in between, nothing is learned
// of the new one.
func remember(c *llmlb.Call, ix *index, cache uint32, now time.Time) {
	c.Learn = nil
	if len(c.Blocks) == 0 {
		return
	}
	blocks := c.Blocks[:min(len(c.Blocks), maxLearned)]
	ix.learn(blocks, cache, now, false)
	c.Learn = func(now time.Time) { ix.learn(blocks, cache, now, true) }
}
