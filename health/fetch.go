package health

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/klauspost/compress/gzip"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// maxPage bounds a page, both as sent and after decompression.
const maxPage = 8 << 20

// dialInfoKey is where Caddy's transport looks for the socket to dial.
const dialInfoKey caddy.CtxKey = "reverse_proxy.dial_info"

// ask is what one exchange is for.
type ask struct {
	path string // where the settings name none

	// text and json say in which forms the answer can be read.
	text, json bool

	// home asks the upstream itself, wherever its metrics are.
	home bool
}

// accept is the request's Accept header.
func (a *ask) accept() string {
	// Asked for OpenMetrics, engines answer in a format with other names.
	const text, json = "text/plain;version=0.0.4", "application/json"
	switch {
	case a.text && a.json:
		return text + ", " + json + ";q=0.5"
	case a.json:
		return json
	}
	return text
}

// page is what one exchange brought.
type page struct {
	body    []byte // decoded; valid until release
	header  http.Header
	scratch *scratch

	own        bool // the exchange was with the port that calls go to
	answered   bool // with any response at all
	undialed   bool // no connection could be made
	conclusive bool // the server answered, and will not answer otherwise soon
}

// release gives the page's memory back.
func (p *page) release() {
	if p.scratch != nil {
		p.scratch.release()
		p.scratch, p.body = nil, nil
	}
}

// fetch reads the endpoint's page through the proxy's own transport, so that
// TLS settings and client certificates are those of the upstream. ctx bounds
// the whole exchange; limit is that bound in words.
func fetch(ctx context.Context, s *llmlb.Settings, address string, a ask, limit time.Duration) (*page, reason) {
	p := &page{}
	transport, scheme := s.Upstream()
	src, err := parseSource(s.Scrape.Metrics)
	if err != nil || transport == nil {
		return p, badAddress
	}
	if a.home {
		src = source{}
	}
	t, err := locate(address, src, a.path, cmp.Or(scheme, "http"), transport)
	if err != nil {
		return p, badAddress
	}
	p.own = t.own
	token, ok := bearer(s.Scrape.Bearer)
	if !ok {
		return p, badAuth
	}
	if !t.trusted {
		token = ""
	}
	return p, p.exchange(ctx, transport, &t, &a, token, limit)
}

// exchange asks for the page, and once more where it was moved to within the
// same origin. Uvicorn-based engines redirect /metrics to /metrics/.
func (p *page) exchange(ctx context.Context, transport http.RoundTripper, t *target, a *ask, token string, limit time.Duration) reason {
	for moved := false; ; moved = true {
		var dial dialTrace
		res, err := transport.RoundTrip(newRequest(dial.trace(ctx), t, a, token)) //nolint:bodyclose // discard closes it
		if err != nil {
			p.undialed = dial.failed(err)
			return errorReason(cmp.Or(ctx.Err(), dial.cause(err)), limit)
		}
		p.answered = true
		if isRedirect(res.StatusCode) {
			discard(res.Body)
			p.conclusive = true
			if moved {
				return "redirected twice"
			}
			if !t.follow(res.Header.Get("Location")) {
				return "redirect to another place"
			}
			continue
		}
		why := p.read(ctx, res, a, limit)
		discard(res.Body)
		return why
	}
}

// read takes in a response that is no redirect.
func (p *page) read(ctx context.Context, res *http.Response, a *ask, limit time.Duration) reason {
	if res.StatusCode != http.StatusOK {
		// A server error passes, for example while a model is loaded; that
		// metrics are not implemented does not.
		p.conclusive = res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests ||
			res.StatusCode == http.StatusNotImplemented
		return statusReason(res.StatusCode)
	}
	p.conclusive = true
	p.header = res.Header
	if kind := res.Header.Get("Content-Type"); kind != "" {
		media, _, _ := mime.ParseMediaType(kind)
		switch {
		case media == "text/plain", media == "application/openmetrics-text", media == "application/octet-stream":
		case media == "application/json" && a.json:
		default:
			return contentReason(media)
		}
	}
	p.scratch = scratches.Get().(*scratch)
	p.scratch.body.Reset()
	raw := &io.LimitedReader{R: res.Body, N: maxPage + 1}
	var decoded io.Reader = raw
	switch encoding := strings.ToLower(res.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		if err := p.scratch.unzip(raw); err != nil {
			p.conclusive = ctx.Err() == nil
			return errorReason(cmp.Or(ctx.Err(), err), limit)
		}
		decoded = p.scratch.gzip
	default:
		return "unknown content encoding"
	}
	n, err := p.scratch.body.ReadFrom(io.LimitReader(decoded, maxPage+1))
	switch {
	case n > maxPage || raw.N == 0:
		return tooLarge
	case err != nil:
		p.conclusive = false
		return errorReason(cmp.Or(ctx.Err(), err), limit)
	}
	p.body = p.scratch.body.Bytes()
	return ""
}

func (sc *scratch) unzip(r io.Reader) (err error) {
	if sc.gzip == nil {
		sc.gzip, err = gzip.NewReader(r)
		return err
	}
	return sc.gzip.Reset(r)
}

// newRequest makes a request that Caddy's transport can send outside of the
// proxy loop: with the socket to dial, variables, and the placeholders of the
// upstream, which TLS server names may use.
func newRequest(ctx context.Context, t *target, a *ask, token string) *http.Request {
	repl := caddy.NewReplacer()
	repl.Set("http.reverse_proxy.upstream.address", t.dial.String())
	repl.Set("http.reverse_proxy.upstream.hostport", t.dial.Address)
	repl.Set("http.reverse_proxy.upstream.host", t.dial.Host)
	repl.Set("http.reverse_proxy.upstream.port", t.dial.Port)
	ctx = context.WithValue(ctx, caddy.ReplacerCtxKey, repl)
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
			"Accept":          {a.accept()},
			"Accept-Encoding": {"gzip"},
			"User-Agent":      {"caddy-llmlb"},
		},
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	original := *req
	original.Header = maps.Clone(req.Header)
	return req.WithContext(context.WithValue(ctx, caddyhttp.OriginalRequestCtxKey, original))
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
