package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/answer"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The values of Failover, besides off.
const (
	noToken = "no_token"
	unsent  = "unsent"
)

// failure is how an attempt failed before the client had anything of its answer.
type failure struct {
	outcome llmlb.Outcome
	err     error       // what to say of it in the log
	answer  *llmlb.Kept // what the server said, nil when it said nothing

	// unfit says that no connection was even tried: it is the request that cannot
	// be sent, now or later.
	unfit bool
}

// replaceable reports whether another attempt may follow one that ended so, and
// takes it from the pool's budget.
func (a *attempt) replaceable(o llmlb.Outcome) bool {
	c := a.call
	switch {
	case a.client.Err() != nil, a.t.Failover == off:
		return false
	case a.t.Failover == unsent && o != llmlb.Unreachable && o != llmlb.Overloaded:
		return false
	case !c.Generates():
		return o == llmlb.Unreachable // a list of models is not worth an outage's load
	case c.Answering && !c.AttemptsLeft(), c.Pool == nil:
		return false // without admission the proxy alone counts them
	case o == llmlb.Unreachable && c.Answering:
		return true // nothing was sent, so that it adds to nobody's load
	}
	return c.Pool.TakeRetry(time.Now())
}

// fail ends the attempt for a failure and returns the error by which the proxy
// loop tries again, or by which it does not.
func (a *attempt) fail(f *failure, again bool) error {
	if gone := a.client.Err(); gone != nil {
		a.end(time.Now(), llmlb.ClientGone)
		return gone
	}
	if f.unfit {
		a.call.Exclude(a.endpoint)
	}
	a.strike(f.outcome, f.answer)
	if f.answer != nil && f.outcome == llmlb.Overloaded && (f.answer.RetryAfter == 0 || !a.about(f.answer)) {
		f.answer.RetryAfter = a.pause() // engines leave it out, or ask for years
	}
	a.call.Keep(f.answer)
	a.end(time.Now(), f.outcome)
	a.logFailure(f, again)
	if again {
		return another(f.err)
	}
	return final(f)
}

// strike keeps the Call away from the endpoint, and others too for a while when
// it has too much to do.
func (a *attempt) strike(o llmlb.Outcome, said *llmlb.Kept) {
	switch o {
	case llmlb.Overloaded:
	case llmlb.Unreachable:
		a.call.ExcludeUnsent(a.endpoint)
		return
	default:
		a.call.Exclude(a.endpoint)
		return
	}
	a.call.ExcludeBusy(a.endpoint)
	var asked time.Duration
	if said != nil {
		asked = said.RetryAfter
		if a.about(said) && (asked == 0 || asked > keyedPause) {
			asked = keyedPause
		}
	}
	a.endpoint.NoteOverload(time.Now(), asked)
}

// unanswered tells how an attempt failed that brought no answer.
func (a *attempt) unanswered(err error, connected bool) *failure {
	switch cause := context.Cause(a.ctx); {
	case !connected:
		return &failure{outcome: llmlb.Unreachable, err: err}
	case errors.Is(cause, errDrained): // which is nobody's failure; see llmlb.Endpoint.Cut
		return &failure{outcome: llmlb.EngineError, err: cause}
	case errors.Is(err, errNoToken):
		return &failure{outcome: llmlb.FirstTokenTimeout, err: err}
	case errors.Is(cause, errNoToken), errors.Is(cause, errLost), errors.Is(cause, errStalled):
		return &failure{outcome: llmlb.FirstTokenTimeout, err: cause}
	}
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() { // response_header_timeout, read_timeout
		return &failure{outcome: llmlb.FirstTokenTimeout, err: err}
	}
	return &failure{outcome: llmlb.EngineError, err: err}
}

// keptMost bounds what is kept of an answer that refuses, and keepWithin how
// long it may take to come.
const (
	keptMost   = 64 << 10
	keepWithin = 2 * time.Second
)

// keep reads an answer that refuses, to give it to the client when no server has
// a better one. Of one that does not come whole only the status is kept.
func (a *attempt) keep(resp *http.Response, o llmlb.Outcome) *llmlb.Kept {
	stop := time.AfterFunc(keepWithin, func() { a.cancel(errStalled) })
	defer stop.Stop()
	body, err := io.ReadAll(io.LimitReader(resp.Body, keptMost+1))
	_ = resp.Body.Close()
	k := a.refusal(resp, o)
	if err == nil && len(body) <= keptMost {
		k.Body = body
		keepHeaders(k.Header, resp.Header)
	}
	return k
}

// refusal is the kept form of a status.
func (a *attempt) refusal(resp *http.Response, o llmlb.Outcome) *llmlb.Kept {
	k := &llmlb.Kept{
		Outcome: o, Status: resp.StatusCode, Header: make(http.Header),
		RetryAfter: retryAfter(resp.Header, time.Now()),
	}
	p := a.placed()
	p.Put(k.Header)
	return k
}

// keyedPause is how long a 429 keeps others away that may be about the client's
// own key: others must not wait for it long.
const keyedPause = time.Second

// about reports whether the answer may be about the client and not the server.
func (a *attempt) about(k *llmlb.Kept) bool {
	return a.keyed && k.Status == http.StatusTooManyRequests
}

// keepHeaders copies what describes the body, and what an engine may say beside
// it.
func keepHeaders(to, from http.Header) {
	for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Language", "Www-Authenticate", "X-Request-Id"} {
		if v := from[name]; v != nil {
			to[name] = v
		}
	}
}

// inBand is the kept form of an error that came in a 200, as the HTTP error that
// it stands for: the client has seen nothing yet. What is still to come of the
// error is waited for, within the bounds of any kept answer.
func (a *attempt) inBand(resp *http.Response, h held, f *answer.Facts) *llmlb.Kept {
	k := a.refusal(resp, llmlb.EngineError)
	k.Status = f.Status
	if f.Overloaded {
		k.Outcome = llmlb.Overloaded
	}
	stop := time.AfterFunc(keepWithin, func() { a.cancel(errStalled) })
	defer stop.Stop()
	said, err := answer.InBand(h.head), h.err
	for piece := make([]byte, gateFirst); said == nil && err == nil && len(h.head) < keptMost; said = answer.InBand(h.head) {
		var n int
		n, err = resp.Body.Read(piece)
		h.head = append(h.head, piece[:n]...)
	}
	_ = resp.Body.Close()
	if said == nil {
		said = []byte(unreadable)
	}
	k.Body = bytes.Clone(said)
	k.Header.Set("Content-Type", "application/json")
	return k
}

// unreadable stands for an error that did not come whole.
const unreadable = `{"error":{"message":"The inference server failed to answer.","type":"server_error","param":null,"code":"upstream_error"}}`

// respond makes a response of a kept answer, for when it is the last word.
func respond(resp *http.Response, k *llmlb.Kept) *http.Response {
	out := *resp
	out.StatusCode, out.Status = k.Status, strconv.Itoa(k.Status)+" "+http.StatusText(k.Status)
	out.Header = k.Header
	out.ContentLength, out.TransferEncoding, out.Trailer = int64(len(k.Body)), nil, nil
	out.Header.Set("Content-Length", strconv.Itoa(len(k.Body)))
	out.Body = io.NopCloser(bytes.NewReader(k.Body))
	return &out
}

// another is the error on which the proxy loop chooses again, whatever the
// method. It hides what it is made of: of a wrapped context.Canceled the loop
// would think that the client has left.
func another(err error) error {
	if _, ok := errors.AsType[reverseproxy.DialError](err); ok {
		return err
	}
	return reverseproxy.NewDialError(errors.New(err.Error()))
}

// final is the error on which it does not.
func final(f *failure) error {
	var ne net.Error
	slow := f.outcome == llmlb.FirstTokenTimeout || errors.As(f.err, &ne) && ne.Timeout()
	return &attemptError{text: f.err.Error(), timeout: slow}
}

// maxRetryAfterSeconds keeps the arithmetic of seconds far from its limits.
const maxRetryAfterSeconds = 365 * 24 * 3600

// retryAfter reads a Retry-After header: whole seconds or a date, RFC 9110
// section 10.2.3. What is neither, or not in the future, asks for nothing.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if v == "" {
		return 0
	}
	if n, err := strconv.Atoi(v); err == nil {
		return time.Duration(min(max(0, n), maxRetryAfterSeconds)) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfterSeconds*time.Second)
	}
	return 0
}
