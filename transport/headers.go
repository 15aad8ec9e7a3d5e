package transport

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// decisionHeaders says how the request was placed, in the answer's own headers or,
// where the admission handler writes to the client, there: on the way each header
// costs a placeholder and a copy. What a server says of such, which may be another
// gateway, is not said of this one, and not at all with headers off.
func (a *attempt) decisionHeaders(h http.Header) {
	for _, name := range llmlb.PlacedHeaders {
		delete(h, name)
	}
	p := a.placed()
	if a.call.Answering {
		a.call.Placed = p
		return
	}
	p.Put(h)
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
