package admission

import (
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// relay answers with what an endpoint said that had no better answer. It was kept
// with the number of its own attempt, and there may have been more.
func (x *exchange) relay(k *llmlb.Kept) error {
	h := x.rec.Header()
	for name, v := range k.Header {
		switch http.CanonicalHeaderKey(name) {
		case "Connection", "Content-Length", "Retry-After", "Trailer", "Transfer-Encoding":
		default:
			h[name] = v
		}
	}
	if h[llmlb.HeaderAttempts] != nil {
		h.Set(llmlb.HeaderAttempts, strconv.Itoa(x.call.Attempts))
	}
	if n := x.retryAfter(k); n > 0 {
		h.Set("Retry-After", strconv.Itoa(n))
	}
	if k.Body == nil {
		return x.say(inWords(k))
	}
	h.Set("Content-Length", strconv.Itoa(len(k.Body)))
	x.rec.WriteHeader(keptStatus(k))
	_, _ = x.rec.Write(k.Body) // a client that left is in the log already
	return nil
}

// retryAfter is when the client may hope again, in seconds: the shortest that is
// known for an overload, what the endpoint asked for otherwise. 0 is not known.
func (x *exchange) retryAfter(k *llmlb.Kept) int {
	wait := k.RetryAfter
	if k.Outcome == llmlb.Overloaded {
		if at := x.call.RetryAt; !at.IsZero() {
			if until := max(1, time.Until(at)); wait <= 0 || until < wait {
				wait = until
			}
		}
		return seconds(wait)
	}
	if wait <= 0 {
		return 0
	}
	return seconds(wait)
}

// keptStatus is the kept answer's status, if it is one that a client may get for
// a failure.
func keptStatus(k *llmlb.Kept) int {
	switch {
	case k.Status >= http.StatusBadRequest && k.Status <= 599:
		return k.Status
	case k.Outcome == llmlb.Overloaded:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}

// inWords is for an answer of which no more than the status was kept.
func inWords(k *llmlb.Kept) *refusal {
	f := failed(http.StatusBadGateway)
	if k.Outcome == llmlb.Overloaded {
		f = overloaded(k.RetryAfter)
	}
	f.status = keptStatus(k)
	return f
}
