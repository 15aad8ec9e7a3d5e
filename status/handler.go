package status

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler is a live page of the pools and their servers: a table, small plots of
// the last 15 minutes, and on request buttons to drain servers and to have them
// resume. It answers every request that reaches it, below whatever path that is.
type Handler struct {
	// The pools to show. A name that no lb_policy llm of the configuration
	// describes is an error. Default: all.
	Pools []string `json:"pools,omitempty"`

	// Whether the addresses of servers are shown. Names are all that most who look
	// at the page need, and all that it should tell those who should not.
	// Default: false.
	Addresses bool `json:"addresses,omitempty"`

	// Whether servers can be drained and resumed from the page. Everybody who can
	// open the page then can do so: have an authentication before it.
	// Default: false.
	AllowActions bool `json:"allow_actions,omitempty"`

	// That no authentication is wanted before a page with actions, as when
	// something in front of Caddy has seen to it: loading does not warn then.
	// Default: false.
	Unguarded bool `json:"unguarded,omitempty"`

	logger *zap.Logger

	// ending is closed when the configuration is about to stop. Streams end then:
	// Caddy would wait for them, as long as its grace period lasts.
	ending chan struct{}
	end    func()

	mu   sync.Mutex
	held bool // a reference to the watch, while the configuration is started
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.llm_status", New: func() caddy.Module { return new(Handler) }}
}

// Provision looks at what stands before the handler, and asks to be told when
// the configuration starts and stops. It starts nothing.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	h.ending = make(chan struct{})
	h.end = sync.OnceFunc(func() { close(h.ending) })
	if err := h.checkPools(ctx); err != nil {
		return err
	}
	if h.AllowActions && !h.Unguarded && !guarded(ctx.Modules()) {
		h.logger.Warn("the status page has allow_actions, and no authentication is seen before it: whoever can open it can drain servers; " +
			"put basic_auth, forward_auth or another authentication before llm_status, or write 'allow_actions unguarded' if something else sees to it")
	}
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("getting the events app: %w", err)
	}
	events := app.(*caddyevents.App)
	if err := events.On("started", listener(h.begin)); err != nil {
		return err
	}
	return events.On("stopping", listener(h.stop))
}

// checkPools has the app find names of pools that there are not: it does so when
// it starts, once all pools are known.
func (h *Handler) checkPools(ctx caddy.Context) error {
	if len(h.Pools) == 0 {
		return nil
	}
	app, err := ctx.App("llmlb")
	if err != nil {
		return fmt.Errorf("getting the llmlb app: %w", err)
	}
	for i, name := range h.Pools {
		if name == "" || slices.Contains(h.Pools[:i], name) {
			return fmt.Errorf("pool %q is empty or named twice; have %s", name, strings.Join(h.Pools, ", "))
		}
		app.(llmlb.Watcher).Handle(name)
	}
	return nil
}

// listener is a function that an event is told to.
type listener func()

// Handle implements caddyevents.Handler.
func (f listener) Handle(context.Context, caddy.Event) error { f(); return nil }

// begin takes a reference to the watch.
func (h *Handler) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.held {
		acquireWatch()
		h.held = true
	}
}

// stop ends the streams and gives the reference back.
func (h *Handler) stop() {
	h.end()
	h.mu.Lock()
	held := h.held
	h.held = false
	h.mu.Unlock()
	if held {
		releaseWatch()
	}
}

// Cleanup ends what a configuration leaves behind that failed after its start.
func (h *Handler) Cleanup() error {
	if h.end != nil {
		h.stop()
	}
	return nil
}

// shows reports whether the pool is among those to show.
func (h *Handler) shows(pool string) bool {
	return len(h.Pools) == 0 || slices.Contains(h.Pools, pool)
}

// ServeHTTP answers by the last part of the path, so that the page may stand
// below any.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	secure(w.Header())
	switch part := lastPart(r.URL.Path); part {
	case "":
		return h.page(w, r)
	case "events":
		return h.events(w, r)
	case "pools":
		return h.pools(w, r)
	case "history":
		return h.history(w, r)
	case "drain", "resume":
		return h.act(w, r, part)
	default:
		if a, ok := assets[part]; ok {
			return a.serve(w, r)
		}
		return toPage(w, r, part)
	}
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ caddyevents.Handler         = listener(nil)
)
