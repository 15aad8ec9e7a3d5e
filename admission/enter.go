package admission

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/queue"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
)

// mayEnter asks what can be asked before the body: the limits on open requests,
// whether there is room to wait, and memory. A request that is refused here has
// cost next to nothing.
func (x *exchange) mayEnter() *refusal {
	h, c := x.handler, x.call
	limits := h.limitsOf(c.Tenant)
	ticket, denial := x.turns.limits.Enter(c.Arrival, queue.Ask{
		Tenant: c.Tenant, Client: clientOf(x.request),
		Concurrent: limits.Concurrent, ClientConcurrent: h.ClientLimit, TokensPerMinute: limits.TokensPerMinute,
	})
	if denial != nil {
		return limited(denial)
	}
	x.ticket = ticket
	if x.waits() && x.turns.queue.Len() > 0 {
		return x.full()
	}
	return nil
}

// full tells why the Call could not wait, if it could not and would have to.
func (x *exchange) full() *refusal {
	c, q, b := x.call, x.turns.queue, x.bounds()
	if !q.Full(x.class, c.Tenant, b) || selection.AnyRoom(c.Settings, c.Pool, c.Arrival) {
		return nil
	}
	b.Tokens = 0
	if q.Full(x.class, c.Tenant, b) {
		return x.turnedAway(queue.FullCalls)
	}
	return x.turnedAway(queue.FullTokens)
}

// spend takes the Call's tokens from its tenant's.
func (x *exchange) spend() *refusal {
	c := x.call
	limits := x.handler.limitsOf(c.Tenant)
	if denial := x.turns.limits.Spend(time.Now(), x.ticket, c.InputTokens+c.ExpectedOutput(), limits.TokensPerMinute); denial != nil {
		return limited(denial)
	}
	return nil
}

// release gives back what the Call holds of what all share, and counts it,
// however it ended.
func (x *exchange) release() {
	c := x.call
	prompt, output := x.used()
	if c.Pool != nil {
		c.Pool.CountRequest(c.Class, c.Outcome, c.Refusal, x.handler.label(c.Tenant), prompt, output)
		if x.offered() {
			c.Pool.CountSLO(time.Now(), c, output)
		}
	}
	if x.turns == nil {
		return
	}
	c.Released = nil
	x.share.set(0)
	if x.ticket == nil {
		return
	}
	now := time.Now()
	x.turns.limits.Settle(now, x.ticket, prompt+output)
	x.turns.limits.Leave(now, x.ticket)
	x.turns.queue.Settle(x.waiter, x.cost())
}
