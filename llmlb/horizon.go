package llmlb

import "time"

// Engines take what they find when a step ends, as many prompt tokens as they compute
// in one: stepTokensMost by default on large accelerators (max_num_batched_tokens).
// With less than that they would run dry before the next prompts come. But no more
// than horizonMost seconds are given to slow ones, and horizonLeast to any.
const (
	stepTokensMost            = 8 << 10
	horizonLeast, horizonMost = 0.5, 0.6
)

// What waits in the gateway takes the first endpoint with room, or finds at the end
// of its wait that others look better, and is computed again there. While few answers
// are being written that is as it should be: the first token comes sooner. Near the
// limit of a pool it costs answers their time per token: a long prompt that waited
// meets more of them, and each prefix that is computed twice holds up all. So an
// endpoint gets more at once the more answers it writes: the least for up to
// answersFew of them, in proportion beyond, and manifold times that at most.
const answersFew, manifold = 2, 4

// Horizon is how much prefill keeps an endpoint busy, in tokens, that computes so
// many a second and has so many requests in its batch. With several who ask it stays
// the least: see Pool.Several.
func Horizon(speed, running float64, several bool) float64 {
	least := min(max(stepTokensMost, horizonLeast*speed), horizonMost*speed)
	if several {
		return least
	}
	return least * min(max(1, running/answersFew), manifold)
}

// askers is who has asked for places: what is given to an engine is in nobody's order
// any more, which matters as soon as there are two.
type askers struct {
	class, tenant string // the last
	any           bool
	several       time.Time // when it was another than the one before
}

// severalKeep is for how long there are several after the last change.
const severalKeep = time.Minute

// Asked notes that the Call asks for a place. Under the pool's lock.
func (p *Pool) Asked(c *Call, now time.Time) {
	a := &p.askers
	if a.any && (a.class != c.Class || a.tenant != c.Tenant) {
		a.several = now
	}
	a.class, a.tenant, a.any = c.Class, c.Tenant, true
}

// Several reports whether Calls of more than one class or tenant have asked for places
// within the last minute. Under the pool's lock.
func (p *Pool) Several(now time.Time) bool {
	t := p.askers.several
	return !t.IsZero() && now.Sub(t) < severalKeep
}
