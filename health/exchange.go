package health

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// dialInfoKey is where Caddy's transport looks for the socket to dial.
const dialInfoKey caddy.CtxKey = "reverse_proxy.dial_info"

// query is what one exchange asks a server for.
type query struct {
	// at is where the settings have it, in the words of the option "metrics";
	// empty is the upstream's own address. path is where at names none.
	at, path string

	accept string
	gzip   bool   // the answer may be compressed
	body   []byte // JSON to be sent with POST; nil for GET

	memo *memo // where the way is kept if the same is asked again; may be nil
}

// memo keeps how a query is sent, for the next that is the same: to find out takes
// longer than to ask. Settings never change, so neither does what follows of them.
type memo struct {
	settings                  *llmlb.Settings
	address, at, path, accept string
	token                     string

	sent      string // the token, or nothing where the target may not see it
	transport http.RoundTripper
	target    target
	request   *http.Request
	dial      *dialTrace
}

func (m *memo) is(s *llmlb.Settings, address, token string, q *query) bool {
	return m != nil && m.settings == s && m.address == address && m.at == q.at && m.path == q.path && m.accept == q.accept && m.token == token
}

// contact is what an exchange has told of the way to the server.
type contact struct {
	tried      bool // it is known where to ask
	own        bool // the exchange was with the port that calls go to
	answered   bool // with any response at all
	undialed   bool // no connection could be made
	conclusive bool // the server answered, and will not answer otherwise soon
	unsafe     bool // it was asked without the token, which TLS would not have hidden
}

// note tells the endpoint what was learned of reaching it.
func (c *contact) note(e *llmlb.Endpoint, now time.Time, why reason) {
	switch {
	case !c.own:
	case c.answered:
		e.Reached(now)
	case c.undialed:
		e.NotReached(now, string(why))
	}
}

// unkeyed is why a status came, if it is that the token was kept back.
func (c *contact) unkeyed(status int, why reason) reason {
	if c.unsafe && (status == http.StatusUnauthorized || status == http.StatusForbidden) {
		return reason(strconv.Itoa(status) + ": upstream_auth is not sent over plain http")
	}
	return why
}

// send asks through the proxy's own transport, so that TLS settings and client
// certificates are those of the upstream. It asks once more where the answer was
// moved to within the same origin: Uvicorn-based engines redirect /metrics to
// /metrics/. The body of the response is the caller's to read and to close, within
// ctx, which bounds the whole exchange; limit is that bound in words.
func (c *contact) send(ctx context.Context, s *llmlb.Settings, address string, q *query, limit time.Duration) (*http.Response, reason) {
	token, ok := bearer(s.Scrape.Bearer)
	if !ok {
		return nil, badAuth
	}
	way := q.memo
	if !way.is(s, address, token, q) {
		var why reason
		if way, why = findWay(s, address, token, q); why != "" {
			return nil, why
		}
		if q.memo != nil {
			*q.memo = *way
		}
	}
	c.tried, c.own, c.unsafe = true, way.target.own, token != "" && way.target.weaker
	req, dial := way.request, way.dial
	for moved := false; ; moved = true {
		dial.reset()
		res, err := way.transport.RoundTrip(within(ctx, req))
		if err != nil {
			if q.memo != nil {
				*q.memo = memo{} // its trace may be called until the dial has ended too
			}
			c.undialed = dial.failed(err)
			return nil, errorReason(cmp.Or(ctx.Err(), dial.cause(err)), limit)
		}
		c.answered = true
		if !isRedirect(res.StatusCode) {
			return res, ""
		}
		discard(res.Body)
		c.conclusive = true
		if moved {
			return nil, "redirected twice"
		}
		t := way.target
		if q.body != nil || !t.follow(res.Header.Get("Location")) {
			return nil, "redirect to another place"
		}
		req = newRequest(&t, q, way.sent, dial)
	}
}

// findWay works out how the query is sent to the endpoint.
func findWay(s *llmlb.Settings, address, token string, q *query) (*memo, reason) {
	transport, scheme := s.Upstream()
	src, err := parseSource(q.at)
	if err != nil || transport == nil {
		return nil, badAddress
	}
	t, err := locate(address, src, q.path, cmp.Or(scheme, "http"), transport)
	if err != nil {
		return nil, badAddress
	}
	m := &memo{settings: s, address: address, at: q.at, path: q.path, accept: q.accept, token: token, transport: transport, target: t, dial: new(dialTrace)}
	if t.trusted {
		m.sent = token
	}
	m.request = newRequest(&t, q, m.sent, m.dial)
	return m, ""
}

// newRequest makes a request that Caddy's transport can send outside of the
// proxy loop: with what traces its dial, the socket to dial, variables, and the placeholders of the
// upstream, which TLS server names may use. These are values of its context, and all
// there is to that: see within.
func newRequest(t *target, q *query, token string, dial *dialTrace) *http.Request {
	repl := caddy.NewReplacer()
	repl.Set("http.reverse_proxy.upstream.address", t.dial.String())
	repl.Set("http.reverse_proxy.upstream.hostport", t.dial.Address)
	repl.Set("http.reverse_proxy.upstream.host", t.dial.Host)
	repl.Set("http.reverse_proxy.upstream.port", t.dial.Port)
	ctx := context.WithValue(dial.trace(context.Background()), caddy.ReplacerCtxKey, repl)
	ctx = context.WithValue(ctx, dialInfoKey, t.dial)
	ctx = context.WithValue(ctx, caddyhttp.VarsCtxKey, map[string]any{
		// Where the transport sends the PROXY protocol it needs a client, and
		// for scrapes that is us.
		"reverse_proxy.proxy_protocol_info": reverseproxy.ProxyProtocolInfo{
			AddrPort: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0),
		},
	})
	u := t.url
	req := &http.Request{
		Method: http.MethodGet, URL: &u, Host: t.host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Accept":          {q.accept},
			"Accept-Encoding": {"identity"},
			"User-Agent":      {"caddy-llmlb"},
		},
	}
	if q.gzip {
		req.Header["Accept-Encoding"] = []string{"gzip"}
	}
	if q.body != nil {
		req.Method = http.MethodPost
		req.Header["Content-Type"] = []string{"application/json"}
		req.ContentLength = int64(len(q.body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(q.body)), nil }
		req.Body, _ = req.GetBody()
		// Not sent, and tells net/http that a connection which turns out to be
		// dead is no reason to fail.
		req.Header["Idempotency-Key"] = nil
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	original := *req
	original.Header = maps.Clone(req.Header)
	return req.WithContext(context.WithValue(ctx, caddyhttp.OriginalRequestCtxKey, original))
}

// within is the request in a context of its own, with the values that it was made
// with.
func within(ctx context.Context, req *http.Request) *http.Request {
	return req.WithContext(&valued{Context: ctx, values: req.Context()})
}

type valued struct {
	context.Context //nolint:containedctx // that is what it is
	values          context.Context
}

// Value implements context.Context.
func (v *valued) Value(key any) any {
	if x := v.values.Value(key); x != nil {
		return x
	}
	return v.Context.Value(key)
}

// bearer resolves the token's placeholders ({env.X}, {file.…}) when it is
// used, so that a token that is replaced on disk needs no reload.
func bearer(configured string) (token string, ok bool) {
	if configured == "" {
		return "", true
	}
	token = strings.TrimSpace(caddy.NewReplacer().ReplaceKnown(configured, ""))
	for i := range len(token) {
		if token[i] < ' ' || token[i] == 0x7f {
			return "", false
		}
	}
	return token, true
}

func isRedirect(code int) bool {
	switch code {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// follow points the target at a new path, and reports false if the location is
// not of the same origin.
func (t *target) follow(location string) bool {
	// The server names itself by the Host header it got.
	base := url.URL{Scheme: t.url.Scheme, Host: t.host, Path: t.url.Path}
	loc, err := base.Parse(location)
	if err != nil || location == "" || origin(loc) != origin(&base) {
		return false
	}
	t.url.Path, t.url.RawPath, t.url.RawQuery = loc.Path, loc.RawPath, loc.RawQuery
	return true
}

// discard reads a little of what is left of a body, so that the connection can
// be used again, and closes it.
func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 16<<10)
	_ = body.Close()
}

// isDial reports whether an error came from making a connection.
func isDial(err error) bool {
	var caddys reverseproxy.DialError
	var op *net.OpError
	return errors.As(err, &caddys) || errors.As(err, &op) && op.Op == "dial"
}
