package llmlb

import (
	"net/http"
	"strconv"
	"time"
)

// The headers that tell the client how its request was placed, as net/http spells
// them.
const (
	HeaderEndpoint = "X-Llm-Endpoint"
	HeaderDecision = "X-Llm-Decision"
	HeaderMatched  = "X-Llm-Matched-Tokens"
	HeaderAttempts = "X-Llm-Attempts"
	HeaderWait     = "X-Llm-Queue-Wait" // milliseconds; absent where there was none
)

// PlacedHeaders are the names of all of them.
var PlacedHeaders = [...]string{HeaderEndpoint, HeaderDecision, HeaderMatched, HeaderAttempts, HeaderWait}

// Placed is what the client is told of how its request was placed. The zero value
// tells nothing.
type Placed struct {
	endpoint string
	reason   Reason
	matched  int
	leased   bool
	attempts int
	waited   time.Duration
}

// PlacedAt returns what is to be told of an answer of the endpoint to the Call, as
// it is now.
func (c *Call) PlacedAt(e *Endpoint) Placed {
	return Placed{
		endpoint: e.Name(), reason: c.Decision.Reason, matched: c.Decision.Matched,
		leased: c.Lease != nil, attempts: c.Attempts, waited: c.Waited,
	}
}

// Put writes the headers that there are.
func (p *Placed) Put(h http.Header) {
	if p.endpoint == "" {
		return
	}
	values := make([]string, 0, len(PlacedHeaders)) // which all are slices of
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set(HeaderEndpoint, p.endpoint)
	if p.leased {
		set(HeaderDecision, p.reason.String())
		set(HeaderMatched, strconv.Itoa(p.matched))
	}
	set(HeaderAttempts, strconv.Itoa(p.attempts))
	if p.waited > 0 {
		set(HeaderWait, strconv.FormatInt(max(1, p.waited.Milliseconds()), 10))
	}
}
