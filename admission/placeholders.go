package admission

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// placeholders is what the names of ours begin with.
const placeholders = "llm."

// told is the exchange that placeholders tell of: the last one where a request goes
// through several, as when an error route leads it to another pool. It lives as long as
// the request. What is asked for is worked out then: most of it is never asked for.
type told struct{ x *exchange }

// String keeps the prompt out of what a placeholder for variables prints.
func (*told) String() string { return "call" }

// GoString does the same for %#v.
func (*told) GoString() string { return "call" }

// toldVar is the name of the request's variable that has it.
const toldVar = "llmlb.told"

// publish has placeholders tell of the exchange.
func (x *exchange) publish() {
	ctx := x.request.Context()
	if s, ok := caddyhttp.GetVar(ctx, toldVar).(*told); ok {
		s.x = x
		return
	}
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	s := &told{x}
	caddyhttp.SetVar(ctx, toldVar, s)
	repl.Map(s.value)
}

// value is what a placeholder stands for, if it is one of ours and known yet. The
// transport sets those of an attempt that reserves nothing, which it alone knows.
func (s *told) value(key string) (any, bool) {
	name, ours := strings.CutPrefix(key, placeholders)
	if !ours {
		return nil, false
	}
	c := s.x.call
	switch name {
	case "pool":
		return s.x.handler.handle.Name(), true
	case "model":
		return c.Model, true
	case "error":
		return c.Refusal, true
	case "class":
		return c.Class, true
	case "tenant":
		return s.x.handler.shown(c.Tenant), true
	case "attempts":
		return c.Attempts, true
	case "queue_wait_ms":
		return millis(c.Waited), c.Waited > 0
	case "ttft_ms":
		return millis(c.FirstToken.Sub(c.Arrival)), !c.FirstToken.IsZero()
	case "outcome":
		return c.Outcome.String(), c.Outcome != llmlb.OutcomeNone
	}
	e := c.Tried
	if c.Lease != nil {
		e = c.Lease.Endpoint()
	}
	if e == nil {
		return nil, false // nothing has been chosen
	}
	switch name {
	case "endpoint":
		return e.Name(), true
	case "decision":
		return c.Decision.Reason.String(), true
	case "matched_tokens":
		return c.Decision.Matched, true
	}
	return nil, false
}
