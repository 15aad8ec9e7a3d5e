package virtual

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
)

// queued has calls wait in the gateway, as they do by default.
func (g *gateway) queued() *gateway {
	g.queue = queue.New(queue.World{
		Place: g.place, Room: selection.Room,
		Saturation: func(now time.Time) float64 { return selection.Saturation(g.pool, now) },
	})
	g.pool.OnRoom(g.room)
	return g
}

func (g *gateway) place(c *llmlb.Call, now time.Time) queue.Placement {
	v, e, effort := selection.Place(c, now)
	p := queue.Placement{For: e, Effort: effort, Why: uint8(v)}
	switch v {
	case selection.Granted:
		p.Answer = queue.Placed
	case selection.Full, selection.Busy, selection.Overloaded:
		p.Answer = queue.Busy
	default:
	}
	return p
}

func (g *gateway) push(v *visit) {
	t, now := v.turn(), g.sim.clock()
	c := v.guest.class
	w := &queue.Waiter{Call: t.call, Class: c, Tenant: v.guest.tenant, Weight: v.guest.weight, Until: now.Add(c.MaxWait)}
	w.Kind = selection.Kind(t.call)
	w.Ready = func() {
		g.placed++
		g.send(v)
	}
	t.waiter = w
	switch g.queue.Push(w, g.bounds, now) {
	case queue.Granted:
	case queue.Waiting:
		g.arm(false)
		g.sim.after(c.MaxWait, arrives, func() {
			if v.ends > 0 || v.machine != nil {
				return
			}
			g.tick()
			if g.queue.Remove(w, g.sim.clock()) {
				g.refuse(v)
			}
		})
	default:
		g.refuse(v)
	}
}

func (g *gateway) leave(v *visit) {
	if !g.queue.Remove(v.turn().waiter, g.sim.clock()) {
		panic("virtual: a call left while it waited, and the queue did not know it")
	}
	g.queue.Settle(v.turn().waiter, 0)
}

func (g *gateway) refuse(v *visit) {
	g.queue.Settle(v.turn().waiter, 0)
	g.sim.refuse(v)
}

// settle books what the call has cost in truth, as far as that is known.
func (g *gateway) settle(v *visit) {
	if g.queue == nil {
		return
	}
	t := v.turn()
	c := t.call
	uncached := max(0, c.InputTokens-t.decision.Matched)
	if c.PromptTokens >= 0 {
		uncached = max(0, c.PromptTokens-max(0, c.CachedTokens))
	}
	output := c.OutputTokens
	if output < 0 {
		output = c.TokenEvents
	}
	g.queue.Settle(t.waiter, queue.Price(uncached, output))
}

// room offers what the endpoint may have to those who wait.
func (g *gateway) room(e *llmlb.Endpoint) {
	if g.queue.Len() > 0 {
		g.arm(g.queue.Freed(e, g.sim.clock()))
	}
}

// lull is how long an endpoint with room may go unasked.
const lull = 100 * time.Millisecond

// arm plans the next moment at which an endpoint may have room by nothing but
// the passing of time, or may be taken though it had room before.
func (g *gateway) arm(again bool) {
	if g.queue.Len() == 0 {
		return
	}
	now := g.sim.clock()
	at := g.pool.NextRoom(now)
	if again = g.queue.Again() || again; again {
		at = now.Add(time.Millisecond)
	}
	if at.IsZero() || at.Sub(now) > lull {
		at = now.Add(lull)
	}
	if g.tickAt.After(now) && !g.tickAt.After(at) {
		return
	}
	g.tickAt, g.again = at, again
	g.sim.after(at.Sub(now), arrives, func() {
		if g.tickAt.Equal(at) {
			g.again = false
			g.tick()
		}
	})
}

func (g *gateway) tick() {
	for _, e := range g.pool.Endpoints() {
		g.room(e)
	}
	g.arm(false)
}
