package transport

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// decisionHeaders says how the request was placed, in the answer's own headers or,
// where the admission handler writes to the client and nobody looks at the answer
// before, there: on the way each header costs a placeholder and a copy. What a server
// says of such, which may be another gateway, is not said of this one, and not at all
// with headers off.
func (a *attempt) decisionHeaders(h http.Header) {
	for _, name := range llmlb.PlacedHeaders {
		delete(h, name)
	}
	p := a.placed()
	if a.call.Answering && !a.t.inAnswers {
		a.call.Placed = p
		return
	}
	p.Put(h)
}

// changesAnswers reports whether the proxy among the modules does something with
// servers' answers: header_down, handle_response and lb_retry_match see the headers by
// which placements are told, and may take them away from the client.
func changesAnswers(modules []caddy.Module) bool {
	for _, m := range slices.Backward(modules) {
		if h, ok := m.(*reverseproxy.Handler); ok {
			return h.Headers != nil && h.Headers.Response != nil || len(h.HandleResponse) > 0 ||
				h.LoadBalancing != nil && len(h.LoadBalancing.RetryMatchRaw) > 0
		}
	}
	return false
}

// placed is what the client is told of how its request was placed.
func (a *attempt) placed() llmlb.Placed {
	if a.t.Headers == off {
		return llmlb.Placed{}
	}
	return a.call.PlacedAt(a.endpoint)
}

// sayWhen adds the Retry-After that engines leave out.
func (a *attempt) sayWhen(h http.Header) {
	if d := a.pause(); d > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
	}
}

// pause is how long the endpoint will get nothing new for having too much to do.
func (a *attempt) pause() time.Duration {
	pool, now := a.endpoint.Pool(), time.Now()
	pool.Lock()
	defer pool.Unlock()
	until, busy := a.endpoint.Overloaded(now)
	if !busy {
		return 0
	}
	return until.Sub(now)
}

// note makes the choice known to placeholders before the answer comes, so that
// header_down can use them. Of what has a reservation the admission handler tells.
func (a *attempt) note(req *http.Request) {
	if a.call.Answering && a.call.Lease != nil {
		return
	}
	repl, ok := req.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	c := a.call
	repl.Set("llm.endpoint", a.endpoint.Name())
	repl.Set("llm.attempts", c.Attempts)
	if c.Lease != nil {
		repl.Set("llm.decision", c.Decision.Reason.String())
		repl.Set("llm.matched_tokens", c.Decision.Matched)
	}
}
