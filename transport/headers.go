package transport

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// The headers that tell the client how its request was placed.
const (
	headerEndpoint = "X-LLM-Endpoint"
	headerDecision = "X-LLM-Decision"
	headerMatched  = "X-LLM-Matched-Tokens"
	headerAttempts = "X-LLM-Attempts"
	headerWait     = "X-LLM-Queue-Wait" // milliseconds; absent where there was none
)

// decisionHeaders says how the request was placed. What a server says of such, which
// may be another gateway, is not said of this one, and not at all with headers off.
func (a *attempt) decisionHeaders(h http.Header) {
	for _, name := range [...]string{headerEndpoint, headerDecision, headerMatched, headerAttempts, headerWait} {
		h.Del(name)
	}
	if a.t.Headers == off {
		return
	}
	c := a.call
	h.Set(headerEndpoint, a.endpoint.Name())
	if c.Lease != nil {
		h.Set(headerDecision, c.Decision.Reason.String())
		h.Set(headerMatched, strconv.Itoa(c.Decision.Matched))
	}
	h.Set(headerAttempts, strconv.Itoa(c.Attempts))
	if c.Waited > 0 {
		h.Set(headerWait, strconv.FormatInt(max(1, c.Waited.Milliseconds()), 10))
	}
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
// header_down can use them.
func (a *attempt) note(req *http.Request) {
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
