package contract

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

func init() {
	caddy.RegisterModule(policy{})
	caddy.RegisterModule(transport{})
	caddy.RegisterModule(handler{})
	caddy.RegisterModule(new(app))
}

// hooks is what a test wants its modules to do. The config names the hooks,
// because functions cannot travel through JSON.
type hooks struct {
	choose    func(reverseproxy.UpstreamPool, *http.Request, http.ResponseWriter) *reverseproxy.Upstream
	roundTrip func(*http.Request) (*http.Response, error)
	handle    func(http.ResponseWriter, *http.Request, caddyhttp.Handler) error

	provision func(caddy.Context) error // of whichever module has these hooks
	start     func() error
	stop      func() error
	cleanup   func() error
}

var (
	registered sync.Map // name → hooks
	lastName   atomic.Int64
)

// register makes h available under the name it returns until the test ends.
func register(t *testing.T, h hooks) string {
	t.Helper()
	name := fmt.Sprintf("hooks-%d", lastName.Add(1))
	registered.Store(name, h)
	t.Cleanup(func() { registered.Delete(name) })
	return name
}

// module is what all test modules have in common.
type module struct {
	Hooks string `json:"hooks,omitempty"`
	hooks hooks
}

func (m *module) Provision(ctx caddy.Context) error {
	found, ok := registered.Load(m.Hooks)
	if !ok {
		return nil // an app that some other module brought up
	}
	m.hooks = found.(hooks)
	if m.hooks.provision == nil {
		return nil
	}
	return m.hooks.provision(ctx)
}

func (m *module) Cleanup() error { return run(m.hooks.cleanup) }

func run(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

type policy struct{ module }

func (policy) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.selection_policies.contract",
		New: func() caddy.Module { return new(policy) },
	}
}

func (p *policy) Select(pool reverseproxy.UpstreamPool, r *http.Request, w http.ResponseWriter) *reverseproxy.Upstream {
	return p.hooks.choose(pool, r, w)
}

type transport struct{ module }

func (transport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.transport.contract",
		New: func() caddy.Module { return new(transport) },
	}
}

func (tr *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return tr.hooks.roundTrip(r)
}

type handler struct{ module }

func (handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.contract",
		New: func() caddy.Module { return new(handler) },
	}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return h.hooks.handle(w, r, next)
}

// app counts its own starts, so that a test sees one that no config names.
type app struct {
	module
	starts atomic.Int64
}

func (*app) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "contract", New: func() caddy.Module { return new(app) }}
}

func (a *app) Start() error {
	a.starts.Add(1)
	return run(a.hooks.start)
}

func (a *app) Stop() error { return run(a.hooks.stop) }

// Interface guards
var (
	_ caddy.Provisioner           = (*policy)(nil)
	_ caddy.CleanerUpper          = (*policy)(nil)
	_ reverseproxy.Selector       = (*policy)(nil)
	_ http.RoundTripper           = (*transport)(nil)
	_ caddyhttp.MiddlewareHandler = (*handler)(nil)
	_ caddy.App                   = (*app)(nil)
)
