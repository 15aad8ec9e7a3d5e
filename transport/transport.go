package transport

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"
)

func init() {
	caddy.RegisterModule(Transport{})
}

// Transport sends one attempt of an inference request and accounts for it. It
// takes every option of Caddy's HTTP transport; two of their defaults differ:
//
//   - versions: 1.1. Engines speak HTTP/1.1, and a client that stops reading
//     then costs the gateway tens of KiB, not the megabytes of an HTTP/2 window.
//   - keep_alive.idle_timeout: 4s. Engines behind uvicorn close a connection
//     after 5 s of silence; a request sent at that moment is lost.
type Transport struct {
	*reverseproxy.HTTPTransport

	// Whether the headers X-LLM-Endpoint, X-LLM-Decision, X-LLM-Matched-Tokens
	// and X-LLM-Attempts are added to responses: "on" or "off". They name
	// endpoints and never tell addresses. Default: on.
	Headers string `json:"headers,omitempty"`

	// fresh never reuses a connection. It is nil when the upstream is not
	// spoken to in HTTP/1.
	fresh  *http.Transport
	delays *delays
	logger *zap.Logger
}

// The values of on/off options.
const (
	on  = "on"
	off = "off"
)

// idleTimeout stays under the 5 s after which uvicorn closes.
const idleTimeout = 4 * time.Second

// CaddyModule returns the Caddy module information.
func (Transport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.transport.llm",
		New: func() caddy.Module { return &Transport{HTTPTransport: new(reverseproxy.HTTPTransport)} },
	}
}

// Provision sets our defaults and builds the connections' transports.
func (t *Transport) Provision(ctx caddy.Context) error {
	t.logger, t.delays = ctx.Logger(), new(delays)
	if t.HTTPTransport == nil {
		t.HTTPTransport = new(reverseproxy.HTTPTransport)
	}
	if len(t.Versions) == 0 {
		t.Versions = []string{"1.1"}
	}
	if t.KeepAlive == nil {
		t.KeepAlive = new(reverseproxy.KeepAlive)
	}
	if t.KeepAlive.IdleConnTimeout == 0 {
		t.KeepAlive.IdleConnTimeout = caddy.Duration(idleTimeout)
	}
	if err := t.HTTPTransport.Provision(ctx); err != nil {
		return err
	}
	t.fresh = withoutReuse(t.Transport, t.Versions)
	return nil
}

// Validate checks what can be wrong in a JSON config too.
func (t *Transport) Validate() error {
	if t.Headers != "" && t.Headers != on && t.Headers != off {
		return fmt.Errorf("headers: %q is neither 'on' nor 'off'", t.Headers)
	}
	return nil
}

// withoutReuse returns a transport that makes a new HTTP/1 connection for each
// request, or nil where HTTP/1 is not spoken. HTTP/2 needs none of this: there a
// server says how far it has read when it closes.
func withoutReuse(stock *http.Transport, versions []string) *http.Transport {
	two := slices.Contains(versions, "2")
	if !slices.Contains(versions, "1.1") || two && stock.DialTLSContext != nil {
		return nil
	}
	rt := stock.Clone()
	rt.DisableKeepAlives = true
	if two && rt.TLSClientConfig != nil {
		rt.TLSClientConfig.NextProtos = []string{"http/1.1"}
		rt.TLSNextProto = nil
		rt.ForceAttemptHTTP2 = false
	}
	return rt
}

// Interface guards. The methods of the embedded transport that reverse_proxy
// asks for by type must stay promoted.
var (
	_ caddy.Provisioner                                = (*Transport)(nil)
	_ caddy.Validator                                  = (*Transport)(nil)
	_ caddy.CleanerUpper                               = (*Transport)(nil)
	_ caddyfile.Unmarshaler                            = (*Transport)(nil)
	_ http.RoundTripper                                = (*Transport)(nil)
	_ reverseproxy.TLSTransport                        = (*Transport)(nil)
	_ reverseproxy.H2CTransport                        = (*Transport)(nil)
	_ reverseproxy.HealthCheckSchemeOverriderTransport = (*Transport)(nil)
	_ reverseproxy.ProxyProtocolTransport              = (*Transport)(nil)
	_ reverseproxy.RequestHeaderOpsTransport           = (*Transport)(nil)
)
