package transport

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// attempt is one try of a Call at an endpoint.
type attempt struct {
	t        *Transport
	call     *llmlb.Call
	endpoint *llmlb.Endpoint
	observed bool // the answer is one of those we can read
	orca     bool // the engine may tell its load in the answer's head
	due      *time.Timer
}

// RoundTrip sends the request to the endpoint that the selection policy chose.
//
// Errors are of three kinds: the client's own context error when it left; a
// DialError when nobody can have read the request, so that reverse_proxy may
// choose again; anything else is final.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	call := llmlb.CallOf(req.Context())
	if call == nil {
		return t.HTTPTransport.RoundTrip(req)
	}
	a := &attempt{t: t, call: call, endpoint: endpointOf(call, req)}
	if a.endpoint == nil {
		return t.HTTPTransport.RoundTrip(req)
	}
	forget(call)
	a.note(req)
	a.observed = call.API != "" && req.Method == http.MethodPost
	a.orca = call.Settings != nil && call.Settings.ORCA
	a.expect()

	// The request belongs to the proxy loop, which may use it again.
	req = req.Clone(req.Context())
	if a.observed {
		// Explicit, or net/http would ask for gzip by itself.
		req.Header["Accept-Encoding"] = []string{"identity"}
	}
	a.askLoad(req)
	resp, err := a.send(req)
	if err != nil {
		return nil, err
	}
	// The first-token gate has its place here: it holds resp back until its body
	// has shown a first event.
	a.answered(req, resp)
	return resp, nil
}

// forget makes the Call ready for another attempt: what the answer of the one
// before has told was that answer's.
func forget(c *llmlb.Call) {
	c.Status = 0
	c.FirstToken, c.LastToken, c.TokenEvents = time.Time{}, time.Time{}, 0
	c.PromptTokens, c.CachedTokens, c.OutputTokens = llmlb.Unknown, llmlb.Unknown, llmlb.Unknown
}

// endpointOf is where the request goes: the endpoint reserved, or, for requests
// that reserve nothing, the member that was chosen. Nil when it is neither.
func endpointOf(c *llmlb.Call, req *http.Request) *llmlb.Endpoint {
	info, ok := reverseproxy.GetDialInfo(req.Context())
	if !ok || info.Upstream == nil {
		return nil
	}
	address := info.Upstream.String()
	if c.Lease != nil {
		if e := c.Lease.Endpoint(); e.Address() == address {
			return e
		}
		return nil // another policy than ours has chosen
	}
	if c.Settings != nil {
		if m := c.Settings.Member(address); m != nil {
			return m.Endpoint
		}
	}
	return nil
}

// send tries the endpoint once, and once more if the connection was stale.
func (a *attempt) send(req *http.Request) (*http.Response, error) {
	keepReplayOut(req)
	fresh := a.t.fresh != nil && a.endpoint.ClosesAfterReply()
	resp, w, err := a.try(req, fresh)
	if err != nil && w.stale() && !fresh && a.t.fresh != nil {
		a.endpoint.NoteStaleConnection()
		if c := a.t.logger.Check(zapcore.DebugLevel, "kept-alive connection was closed"); c != nil {
			c.Write(zap.String("endpoint", a.endpoint.Name()), zap.Error(err))
		}
		if req.Context().Err() == nil && a.rearm(req) {
			resp, w, err = a.try(req, true)
		}
	}
	now := time.Now()
	if err == nil {
		a.endpoint.Reached(now)
		return resp, nil
	}
	if gone := req.Context().Err(); gone != nil {
		a.end(now, llmlb.ClientGone)
		return nil, gone
	}
	a.call.Exclude(a.endpoint)
	a.end(now, llmlb.Unreachable)
	if why := w.why(); why != nil && !w.got.Load() {
		a.endpoint.NotReached(now, reason(why))
		return nil, unsent(err)
	}
	return nil, broken(err)
}

func (a *attempt) try(req *http.Request, fresh bool) (*http.Response, *watch, error) {
	w := &watch{address: a.endpoint.Address(), delays: a.t.delays, now: time.Now}
	req = req.WithContext(w.context(req.Context()))
	if !fresh {
		resp, err := a.t.HTTPTransport.RoundTrip(req)
		return resp, w, err
	}
	a.t.SetScheme(req)
	resp, err := a.t.fresh.RoundTrip(req)
	return resp, w, err
}

// expect moves the Lease to decode when the first token is due by prediction, for
// answers that do not show it: those that come whole, and streams in dialects we
// do not read.
func (a *attempt) expect() {
	c := a.call
	if c.Lease != nil && c.Generates() && !(a.observed && c.Stream) {
		a.due = time.AfterFunc(c.Decision.Predicted, c.Lease.FirstToken)
	}
}

// end gives the Lease back.
func (a *attempt) end(now time.Time, o llmlb.Outcome) {
	if a.due != nil {
		a.due.Stop()
	}
	a.call.EndAttempt(now, o)
}

// keepReplayOut makes sure that net/http sends the request at most once. It
// would send one without a body again when the client gave it an Idempotency-Key,
// and one with a GetBody.
func keepReplayOut(req *http.Request) {
	req.GetBody = nil
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return // these may be repeated
	}
	if req.Body == nil || req.Body == http.NoBody {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(nil)), 0
	}
}

// rearm puts the whole body in place again, and reports whether it could.
func (a *attempt) rearm(req *http.Request) bool {
	switch {
	case req.ContentLength == 0:
		return true // keepReplayOut's body has nothing to lose
	case a.call.Body == nil || int64(len(a.call.Body)) != req.ContentLength:
		return false
	}
	req.Body = io.NopCloser(bytes.NewReader(a.call.Body))
	return true
}

// The headers that tell the client how its request was placed.
const (
	headerEndpoint = "X-LLM-Endpoint"
	headerDecision = "X-LLM-Decision"
	headerMatched  = "X-LLM-Matched-Tokens"
	headerAttempts = "X-LLM-Attempts"
)

// answered takes in the response's head and puts itself behind its body.
func (a *attempt) answered(req *http.Request, resp *http.Response) {
	c := a.call
	c.Status = resp.StatusCode
	a.hearLoad(resp.Header)
	if a.t.Headers != off {
		resp.Header.Set(headerEndpoint, a.endpoint.Name())
		if c.Lease != nil {
			resp.Header.Set(headerDecision, c.Decision.Reason.String())
			resp.Header.Set(headerMatched, strconv.Itoa(c.Decision.Matched))
		}
		resp.Header.Set(headerAttempts, strconv.Itoa(c.Attempts))
	}
	outcome := outcomeOf(resp.StatusCode)
	if outcome != llmlb.Served {
		c.Exclude(a.endpoint) // if reverse_proxy is set to retry such answers
	}
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == nil {
		return // the connection is the client's now
	}
	b := &body{ReadCloser: resp.Body, attempt: a, ctx: req.Context(), outcome: outcome, observer: a.observerFor(resp)}
	_, b.stream = b.observer.(*eventStream)
	resp.Body = b
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
