package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-llmlb/caddy-llmlb/answer"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// RoundTrip makes one attempt at the endpoint that the selection policy chose,
// and returns its answer once that has shown to be one.
//
// Errors are of three kinds: the client's own context error when it left; a
// DialError when another attempt may follow, on which reverse_proxy chooses
// again; anything else is final.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	call := llmlb.CallOf(req.Context())
	if call == nil {
		return t.HTTPTransport.RoundTrip(req)
	}
	endpoint := endpointOf(call, req)
	if endpoint == nil {
		return t.HTTPTransport.RoundTrip(req)
	}
	forget(call)
	a := t.newAttempt(call, endpoint, req)
	a.note(req)
	a.expect()
	a.watch()
	resp, err := a.send(req)
	if err != nil {
		return nil, err
	}
	return a.receive(resp)
}

// forget makes the Call ready for another attempt: what the answer of the one
// before has told was that answer's.
func forget(c *llmlb.Call) {
	c.Status = 0
	c.FirstByte, c.FirstToken, c.LastToken, c.TokenEvents, c.AnswerBytes = time.Time{}, time.Time{}, time.Time{}, 0, 0
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

// send tries the endpoint once, and once more if the connection was stale, or the
// server says that it has not read the request.
func (a *attempt) send(req *http.Request) (*http.Response, error) {
	fresh := a.t.fresh != nil && a.endpoint.ClosesAfterReply()
	resp, w, err := a.try(req, fresh)
	if err != nil && w.stale() && !fresh && a.t.fresh != nil {
		a.endpoint.NoteStaleConnection()
		if c := a.t.logger.Check(zapcore.DebugLevel, "kept-alive connection was closed"); c != nil {
			c.Write(zap.String("endpoint", a.endpoint.Name()), zap.Error(err))
		}
		if a.ctx.Err() == nil && a.rearm(req) {
			resp, w, err = a.try(req, true)
		}
	} else if err != nil && notRead(err) && a.ctx.Err() == nil && a.rearm(req) {
		resp, w, err = a.try(req, fresh)
	}
	now := time.Now()
	if err == nil {
		a.endpoint.Reached(now)
		return resp, nil
	}
	connected := w.got.Load()
	if why := w.why(); why != nil && !connected && a.client.Err() == nil {
		a.endpoint.NotReached(now, reason(why))
	}
	f := a.unanswered(err, connected)
	f.unfit = !connected && !w.tried() && a.ctx.Err() == nil
	return nil, a.fail(f, a.replaceable(f.outcome))
}

func (a *attempt) try(req *http.Request, fresh bool) (*http.Response, *watch, error) {
	one := &struct {
		watch   watch
		request http.Request
		url     url.URL
	}{watch: watch{address: a.endpoint.Address(), delays: a.t.delays, now: time.Now}}
	w := &one.watch
	// The request belongs to the proxy loop, which may use it again, and while this
	// one may still be written.
	one.request, one.url = *req.WithContext(w.context(a.ctx)), *req.URL
	one.request.URL, one.request.Header = &one.url, maps.Clone(req.Header)
	req = &one.request
	if a.observed {
		// Explicit, or net/http would ask for gzip by itself.
		req.Header["Accept-Encoding"] = []string{"identity"}
	}
	a.askLoad(req)
	keepReplayOut(req)
	a.shorten(req, w)
	if !fresh {
		resp, err := a.t.HTTPTransport.RoundTrip(req)
		return resp, w, err
	}
	a.t.SetScheme(req)
	resp, err := a.t.fresh.RoundTrip(req)
	return resp, w, err
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
	req.Body = a.call.BodyReader()
	return true
}

// inOneWrite is what goes out together with the head of its request: the two fit
// into the 4 KiB that net/http writes at once.
const inOneWrite = 3 << 10

type shortBody [inOneWrite + 1]byte

// shorts are short bodies on their way. Those that break off do not come back.
var shorts = sync.Pool{New: func() any { return new(shortBody) }}

// shorten has a short body sent together with the head, in one write instead of two:
// net/http does that only for bodies that it knows to be in memory.
func (a *attempt) shorten(req *http.Request, w *watch) {
	n := req.ContentLength
	if n <= 0 || n > inOneWrite || int64(len(a.call.Body)) != n {
		if longer, ok := req.Body.(lender); ok {
			longer.Hold() // it is read or closed, though perhaps not before there is an answer
		}
		return // what is not held could not be read again for another attempt
	}
	short := shorts.Get().(*shortBody)
	got, err := io.ReadFull(req.Body, short[:n+1]) // one more, or nobody would notice that there is more
	read := bytes.NewReader(short[:got])
	if int64(got) == n && errors.Is(err, io.ErrUnexpectedEOF) {
		_ = req.Body.Close()
		req.Body = io.NopCloser(read)
		w.short.Store(short) // which gives it back when it has been written
		return
	}
	// Somebody has changed it on the way: net/http says what is wrong.
	req.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(read, req.Body), req.Body}
}

// receive takes in the response's head, and its body until it is known whether
// this answer is the one for the client.
func (a *attempt) receive(resp *http.Response) (*http.Response, error) {
	c := a.call
	c.Status = resp.StatusCode
	a.hearLoad(resp.Header)
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == nil {
		if r := resp.Request; r != nil && resp.Body != nil && r.Header.Get("Upgrade") == "" {
			return a.switched(resp)
		}
		a.decisionHeaders(resp.Header)
		return resp, nil // the connection is the client's now
	}
	if o := a.outcomeOf(resp.StatusCode); o != llmlb.Served {
		if again := c.Answering && a.replaceable(o); again || c.Kept != nil {
			// Whoever answers has the choice between this and what was kept.
			f := &failure{outcome: o, err: fmt.Errorf("the server answered %d", resp.StatusCode)}
			f.answer = a.keep(resp, o)
			return nil, a.fail(f, again)
		}
		a.strike(o, a.refusal(resp, o))
		a.logPassed(resp.StatusCode, o)
		return a.pass(resp, nil, held{}, o), nil
	}
	r := a.readerFor(resp)
	if r == nil || !a.gated() {
		return a.pass(resp, r, held{}, llmlb.Served), nil
	}
	h, err := a.hold(resp, r)
	switch {
	case err != nil:
	case a.flow():
		return a.pass(resp, r, h, llmlb.Served), nil
	default: // a moment too late
		err = errNoToken
	}
	if errors.Is(err, errInBand) {
		return a.failedInBand(resp, h, r.Facts())
	}
	_ = resp.Body.Close()
	f := a.unanswered(err, true)
	return nil, a.fail(f, a.replaceable(f.outcome))
}

// errUnasked is another protocol in place of an answer.
var errUnasked = errors.New("the server switched to a protocol that nobody asked for")

// switched is for a server that gives the connection away unasked: the proxy would
// answer with nothing, which a client takes for a success.
func (a *attempt) switched(resp *http.Response) (*http.Response, error) {
	_ = resp.Body.Close()
	f := a.unanswered(errUnasked, true)
	return nil, a.fail(f, a.replaceable(f.outcome))
}

// failedInBand is for an answer whose first word is that there will be none.
func (a *attempt) failedInBand(resp *http.Response, h held, facts *answer.Facts) (*http.Response, error) {
	k := a.inBand(resp, h, facts)
	if blamesClient(facts) {
		a.call.Status = k.Status // the client's own mistake, told late
		return a.pass(respond(resp, k), nil, held{}, llmlb.Served), nil
	}
	if again := a.call.Answering && a.replaceable(k.Outcome); again || a.call.Kept != nil {
		return nil, a.fail(&failure{outcome: k.Outcome, err: errInBand, answer: k}, again)
	}
	a.strike(k.Outcome, k)
	return a.pass(respond(resp, k), nil, held{}, k.Outcome), nil
}

// pass gives the answer to the client, and puts itself behind its body.
func (a *attempt) pass(resp *http.Response, r answer.Reader, h held, o llmlb.Outcome) *http.Response {
	a.flow()
	if a.call.Answering {
		a.call.ReleaseBody() // this is the answer: nothing will be sent again
	}
	a.decisionHeaders(resp.Header)
	if o == llmlb.Overloaded && resp.Header.Get("Retry-After") == "" {
		a.sayWhen(resp.Header)
	}
	b := a.newBody(resp.Body, r, h, o)
	b.text = isText(resp.Header)
	b.count(len(h.head))
	switch {
	case b.stream():
		// Cut or not, it must be possible to see: HTTP/1.1 shows an abort of what
		// has no length.
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
	case !b.text && resp.ContentLength > 0:
		// Sound can be played as it comes, and this is what the proxy goes by. The
		// client still sees the length.
		resp.ContentLength = -1
	}
	resp.Body = b
	return resp
}

// outcomeOf tells what a status says about the endpoint. That a client sent
// nonsense says nothing about it, whatever the engine answers to it: llama.cpp
// answers 500. Nor does it that an engine cannot do what was asked.
func (a *attempt) outcomeOf(status int) llmlb.Outcome {
	c := a.call
	switch {
	case answer.OverloadStatus(status):
		return llmlb.Overloaded
	case status < http.StatusInternalServerError:
		return llmlb.Served
	case c.Broken, status == http.StatusNotImplemented:
		return llmlb.Served
	}
	return llmlb.EngineError
}

// readerFor chooses how to read the answer along, nil for not at all: what is
// compressed in spite of what we asked for, an error, or not a dialect we know.
func (a *attempt) readerFor(resp *http.Response) answer.Reader {
	if !a.observed || resp.StatusCode != http.StatusOK {
		return nil
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil
	}
	return answer.New(a.call.API, resp.Header.Get("Content-Type"))
}
