package admission

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
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
	if q := x.turns.queue; x.waits() && q.Len() > 0 && q.Full(x.class, x.bounds()) && !selection.AnyRoom(c.Settings, c.Pool, c.Arrival) {
		return queueFull(h.calls(), q.Expected(x.class))
	}
	return nil
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
	if c.Pool != nil {
		prompt, output := used(c)
		c.Pool.CountRequest(c.Class, c.Outcome, c.Refusal, x.handler.label(c.Tenant), prompt, output)
	}
	if x.turns == nil {
		return
	}
	x.call.Released = nil
	x.share.set(0)
	if x.ticket == nil {
		return
	}
	now := time.Now()
	prompt, output := used(c)
	x.turns.limits.Settle(now, x.ticket, prompt+output)
	x.turns.limits.Leave(now, x.ticket)
	x.turns.queue.Settle(x.waiter, x.cost())
}

// used is what a Call has used, in tokens: what the engine says, or else what was
// estimated and seen. What was sent to nobody has used nothing.
func used(c *llmlb.Call) (prompt, output int) {
	if c.Attempts == 0 || c.Unsent() || !c.Generates() {
		return 0, 0
	}
	if c.PromptTokens >= 0 {
		return c.PromptTokens, generated(c)
	}
	return c.InputTokens, generated(c)
}
