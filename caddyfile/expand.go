package caddyfile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// reverseProxy has reverse_proxy's own parser read the lines that are its own,
// and adds what the shorthand stands for.
func (p *proxy) reverseProxy(segment caddyfile.Segment) (*reverseproxy.Handler, error) {
	// It needs no flush_interval: reverse_proxy passes on at once what has no length,
	// which the transport sees to for every stream, and an answer that comes whole is
	// cheaper to write in one piece.
	rp := new(reverseproxy.Handler)
	if p.bearer != "" {
		if line, also := p.given[authorizationUp]; also {
			return nil, errAt(segment, "options 'upstream_auth' (line %d) and 'header_up Authorization' (line %d) contradict each other: both say what the servers get as Authorization",
				p.given["upstream_auth"], line)
		}
		rp.Headers = &headers.Handler{Request: &headers.HeaderOps{
			Set: http.Header{"Authorization": {"Bearer " + p.bearer}},
		}}
	}
	if err := rp.UnmarshalCaddyfile(p.remains(segment)); err != nil {
		return nil, p.explain(err)
	}
	if err := p.checkPool(rp, segment); err != nil {
		return nil, err
	}
	if err := p.setScheme(rp, segment); err != nil {
		return nil, err
	}
	rp.TransportRaw = caddyconfig.JSONModuleObject(p.transport, "protocol", "llm", nil)
	rp.LoadBalancing = &reverseproxy.LoadBalancing{
		SelectionPolicyRaw: caddyconfig.JSONModuleObject(p.policy, "policy", "llm", nil),
		Retries:            p.retries,
	}
	return rp, nil
}

// remains returns the directive without our own lines. The tokens keep their
// line numbers: errors then name the right line, and Caddy tells by them where
// a line ends. So the braces must be the directive's own as well.
func (p *proxy) remains(segment caddyfile.Segment) *caddyfile.Dispenser {
	d := caddyfile.NewDispenser(segment)
	d.Next()
	head := 1 + len(d.RemainingArgs())
	tokens := slices.Clone(segment[:head])
	if len(p.rest) > 0 {
		tokens = append(tokens, segment[head]) // {
		tokens = append(tokens, p.rest...)
		tokens = append(tokens, segment[len(segment)-1]) // }
	}
	return caddyfile.NewDispenser(tokens)
}

// explain turns reverse_proxy's complaint about an unknown subdirective into
// one that lists what llm_proxy has. A test pins Caddy's wording; without it
// the operator reads Caddy's own message, which is true too.
func (p *proxy) explain(err error) error {
	if rest, ok := strings.CutPrefix(err.Error(), "unrecognized subdirective "); ok {
		name, _, _ := strings.Cut(rest, ", at ")
		if token, ok := p.unknown[name]; ok {
			return unknownOption(token)
		}
	}
	return err
}

// checkPool refuses a pool without servers, or with one server twice.
func (p *proxy) checkPool(rp *reverseproxy.Handler, segment caddyfile.Segment) error {
	if len(rp.Upstreams) == 0 && rp.DynamicUpstreamsRaw == nil {
		return errAt(segment, "llm_proxy has no upstream; name the servers after the directive, or their source with 'dynamic'")
	}
	seen := make(map[string]bool, len(rp.Upstreams))
	for _, u := range rp.Upstreams {
		if seen[u.Dial] {
			return errAt(segment, "upstream '%s' is listed twice", u.Dial)
		}
		seen[u.Dial] = true
	}
	return nil
}

// setScheme turns on TLS or h2c in our transport where the upstreams' scheme
// says so. reverse_proxy's parser has seen no transport and has therefore made
// one of its own for these schemes; what it made tells which it was.
func (p *proxy) setScheme(rp *reverseproxy.Handler, segment caddyfile.Segment) error {
	var made reverseproxy.HTTPTransport
	if rp.TransportRaw != nil {
		if err := json.Unmarshal(rp.TransportRaw, &made); err != nil {
			return fmt.Errorf("reading the transport that reverse_proxy made: %w", err)
		}
	}
	plain := slices.ContainsFunc(p.upstreams, func(u string) bool { return schemeOf(u) == "http" })
	switch t := p.transport; {
	case made.TLS != nil && !t.TLSEnabled():
		return t.EnableTLS(new(reverseproxy.TLSConfig))
	case plain && t.TLSEnabled():
		return errAt(segment, "an upstream's scheme is http:// and 'transport' has TLS options; write https://, or remove them")
	case slices.Contains(made.Versions, "h2c") && len(t.Versions) > 0:
		return errAt(segment, "an upstream's scheme is h2c:// and 'transport' says 'versions %s'; use one of them", strings.Join(t.Versions, " "))
	case slices.Contains(made.Versions, "h2c"):
		return t.EnableH2C()
	}
	return nil
}
