package transport

import (
	"cmp"
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

	// Whether the headers X-LLM-Endpoint, X-LLM-Decision, X-LLM-Matched-Tokens,
	// X-LLM-Attempts and X-LLM-Queue-Wait are added to responses: "on" or "off". They name
	// endpoints and never tell addresses. Default: on.
	Headers string `json:"headers,omitempty"`

	// FirstToken is "off" to pass the head of every answer on at once, which
	// gives up failover after it. Otherwise the answer is held until it shows a
	// first token, finish marker or error. Default: "on".
	FirstToken string `json:"first_token,omitempty"`

	// How long a stream may take to its first token: four times what is
	// predicted, but at least FirstTokenMin and at most FirstTokenMax. A server
	// that works on others meanwhile and has a queue gets up to FirstTokenMax.
	// Answers that come whole have no such limit. Defaults: 5s and 120s.
	FirstTokenMin caddy.Duration `json:"first_token_min,omitempty"`
	FirstTokenMax caddy.Duration `json:"first_token_max,omitempty"`

	// Failover is when another server may be tried: "no_token", until a first
	// token was handed to the client; "unsent", only where the server cannot
	// have read the request or says that it has too much to do; "off", never.
	// How often is lb_retries' to say. Default: "no_token".
	Failover string `json:"failover,omitempty"`

	// StallTimeout is how long a stream may bring no token after its first; twice
	// that while the engine works on others and has a queue. Default: 600s.
	StallTimeout caddy.Duration `json:"stall_timeout,omitempty"`

	// ErrorEvent is "on" to tell clients of a stream that was cut with an error
	// event in its dialect, before it is aborted. Default: "off".
	ErrorEvent string `json:"error_event,omitempty"`

	// fresh never reuses a connection. It is nil when the upstream is not
	// spoken to in HTTP/1.
	fresh  *http.Transport
	delays *delays
	logger *zap.Logger

	inAnswers bool // placements are told in the servers' answers: see changesAnswers
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
	t.logger, t.delays, t.inAnswers = ctx.Logger(), new(delays), changesAnswers(ctx.Modules())
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
	t.Transport.DialContext = candidly(t.Transport.DialContext)
	t.fresh = withoutReuse(t.Transport, t.Versions)
	return nil
}

// Validate checks what can be wrong in a JSON config too.
func (t *Transport) Validate() error {
	for _, o := range []struct{ name, value string }{
		{"headers", t.Headers}, {"first_token", t.FirstToken}, {"error_event", t.ErrorEvent},
	} {
		if o.value != "" && o.value != on && o.value != off {
			return fmt.Errorf("%s: %q is neither 'on' nor 'off'", o.name, o.value)
		}
	}
	if f := t.Failover; f != "" && f != noToken && f != unsent && f != off {
		return fmt.Errorf("failover: %q is unknown; have %s, %s, %s", f, noToken, unsent, off)
	}
	for _, o := range []struct {
		name  string
		value caddy.Duration
	}{
		{"first_token_min", t.FirstTokenMin}, {"first_token_max", t.FirstTokenMax}, {"stall_timeout", t.StallTimeout},
	} {
		if d := time.Duration(o.value); o.value != 0 && (d < shortest || d > longest) {
			return fmt.Errorf("%s: %v is out of range; have %v to %v", o.name, d, shortest, longest)
		}
	}
	if err := t.checkInherited(); err != nil {
		return err
	}
	if least, most := t.firstTokenMin(), t.firstTokenMax(); least > most {
		return fmt.Errorf("first_token: the least time, %v, is longer than the most, %v", least, most)
	}
	return nil
}

// Defaults and bounds of the times.
const (
	defaultFirstTokenMin = 5 * time.Second
	defaultFirstTokenMax = 120 * time.Second
	defaultStallTimeout  = 600 * time.Second

	shortest = 10 * time.Millisecond
	longest  = 24 * time.Hour
)

func (t *Transport) firstTokenMin() time.Duration {
	return cmp.Or(time.Duration(t.FirstTokenMin), min(defaultFirstTokenMin, t.firstTokenMax()))
}

func (t *Transport) firstTokenMax() time.Duration {
	return cmp.Or(time.Duration(t.FirstTokenMax), max(defaultFirstTokenMax, time.Duration(t.FirstTokenMin)))
}

func (t *Transport) stallTimeout() time.Duration {
	return cmp.Or(time.Duration(t.StallTimeout), defaultStallTimeout)
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
