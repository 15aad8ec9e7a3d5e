package llmlb

import (
	"net/http"
	"time"
)

// Kept is an answer that refused a Call: kept while the Call is tried elsewhere,
// and given to the client when nobody has a better one.
type Kept struct {
	Outcome Outcome // Overloaded or EngineError
	Status  int
	Header  http.Header // Content-Type, and what else the client should see
	Body    []byte

	// RetryAfter is what the endpoint asked for, 0 for nothing.
	RetryAfter time.Duration
}

// Keep keeps the answer of a failed attempt for the client; nil keeps what there
// is. That an endpoint has too much to do is better news than that one is broken,
// so it is not replaced by that; of several overload answers the newest is kept
// with the shortest Retry-After that any of them asked for.
func (c *Call) Keep(k *Kept) {
	if k == nil {
		return
	}
	if old := c.Kept; old != nil && old.Outcome == Overloaded {
		if k.Outcome != Overloaded {
			return
		}
		if old.RetryAfter > 0 && (k.RetryAfter == 0 || old.RetryAfter < k.RetryAfter) {
			k.RetryAfter = old.RetryAfter
		}
	}
	c.Kept = k
}
