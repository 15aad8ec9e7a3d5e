package admission

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

func init() {
	caddy.RegisterModule(Handler{})
}

// Handler admits inference requests to a pool of servers. It stands before the
// reverse_proxy that has the pool's lb_policy llm.
type Handler struct {
	// The pool to admit to. Default: "default".
	Pool string `json:"pool,omitempty"`

	// What is served besides the inference paths: paths, or prefixes that end
	// in '*', or "all" for every path. Such requests pass to a healthy server
	// whatever their method and are not read. Default: none.
	Paths []string `json:"paths,omitempty"`

	// The longest request body in bytes. A longer one is answered 413. Each
	// request's body is held in memory until a server has begun to answer. Default: 32 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// How long a request body may take to arrive, after which the client gets
	// 408. Default: 30s.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// How requests wait for a server that will take them. Default: see its
	// fields.
	Queue *Queue `json:"queue,omitempty"`

	// The classes of requests, at most 16. The first is served first; each of
	// the others is sure of a share. A request belongs to the first whose
	// conditions it meets, or else to the one that has none. If every class has
	// conditions, there is one more for all other requests: "interactive", before
	// the others, or "default", after them, if one of them is called
	// "interactive". Default: "interactive" alone.
	Classes []Class `json:"classes,omitempty"`

	// The request header in which a client may say how long its answer is worth
	// waiting for: seconds, such as "1.5", or a duration, such as "500ms". It can
	// only shorten the deadline of the request's class; what is neither, or not
	// over 0, is ignored. Default: none.
	DeadlineHeader string `json:"deadline_header,omitempty"`

	// Whom a request is counted for: text with placeholders, such as
	// "{http.auth.user.id}". Those without a value are left out. Tenants in a
	// class share what the servers do by tokens. Default: none; all requests are
	// one tenant's.
	Tenant string `json:"tenant,omitempty"`

	// What tenants may use, and how they share; needs "tenant". Default: no
	// limits, and equal weights.
	TenantLimits []TenantLimit `json:"tenant_limits,omitempty"`

	// How many requests of one client, by its address, may be open at once,
	// waiting ones included. Default: 0, no limit.
	ClientLimit int `json:"client_limit_concurrent,omitempty"`

	// Other names for models: what a request may say instead of the name that
	// the servers know. Default: none.
	Models map[string]string `json:"models,omitempty"`

	// Body fields that would steer the engine past this gateway's choice, such
	// as "priority" or "data_parallel_rank", and that clients may send all the
	// same. Default: none; a body with one is answered 400.
	AllowFields []string `json:"allow_fields,omitempty"`

	// What is done for the token counts of streams: "observe" reads what the
	// client has asked for and counts events otherwise; "inject" asks the engine
	// for usage where the client has not, and keeps the one chunk it causes from
	// the client. Default: observe.
	Usage string `json:"usage,omitempty"`

	// After how long without an answer a client that asked for server-sent
	// events gets "200 text/event-stream" and a comment, and then one more each
	// time, until the answer begins. From then on errors reach it as events.
	// From 50ms to 5m. Default: 0, off.
	Heartbeat caddy.Duration `json:"heartbeat,omitempty"`

	// Who answers errors: "write" answers in the API's JSON, "pass" leaves it to
	// the site's error routes. Default: write.
	Errors string `json:"errors,omitempty"`

	logger  *zap.Logger
	handle  *llmlb.Handle
	allow   map[string]bool
	classes []*queue.Class // in the order in which they are served
	sorts   []sort         // those with conditions, in that order
	others  *queue.Class   // what all other requests belong to
	doubted *atomic.Bool   // a class header came from somebody who may not send it
	limits  map[string]TenantLimit
}

// Defaults of the options.
const (
	defaultMaxBody     = 32 << 20
	maxMaxBody         = 4 << 30 // a body is held in memory
	defaultBodyTimeout = 30 * time.Second

	minHeartbeat = 50 * time.Millisecond
	maxHeartbeat = 5 * time.Minute
)

// The values of Errors.
const (
	write = "write"
	pass  = "pass"
)

// The values of Usage.
const (
	observe = "observe"
	inject  = "inject"
)

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.llm_admission",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision finds the pool. It need not have been registered yet: the policy
// that does so may be loaded later.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger, h.doubted = ctx.Logger(), new(atomic.Bool)
	h.allow = make(map[string]bool, len(h.AllowFields))
	for _, f := range h.AllowFields {
		h.allow[f] = true
	}
	app, err := ctx.App("llmlb")
	if err != nil {
		return fmt.Errorf("getting the llmlb app: %w", err)
	}
	watcher, ok := app.(llmlb.Watcher)
	if !ok {
		return fmt.Errorf("the llmlb app is a %T, which watches no pools", app)
	}
	pool := h.Pool
	if pool == "" {
		pool = llmlb.DefaultPool
	}
	h.handle = watcher.Handle(pool)
	h.provisionTenants()
	if err := h.provisionClasses(ctx); err != nil {
		return err
	}
	h.warnUntrusting(ctx)
	if !h.handle.Agree(h.shared()) {
		return fmt.Errorf("pool %q has one queue, and the blocks that use it describe it differently: give them the same 'queue', and the same classes in the same order; which requests belong to a class may differ", h.handle.Name())
	}
	return nil
}

// shared is what all blocks of a pool must say alike.
func (h *Handler) shared() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %v %d %d", h.calls(), h.maxWait(), h.maxBytes(), h.maxTokens())
	for _, c := range h.classes {
		fmt.Fprintf(&b, "; %+v", *c)
	}
	return b.String()
}

// Validate checks the options' values.
func (h *Handler) Validate() error {
	for _, p := range h.Paths {
		if err := checkPattern(p); err != nil {
			return err
		}
	}
	if h.MaxBody < 0 || h.MaxBody > maxMaxBody {
		return fmt.Errorf("max_body: %d is out of range; have 1 to %d bytes", h.MaxBody, int64(maxMaxBody))
	}
	if h.BodyTimeout < 0 {
		return fmt.Errorf("body_timeout: %v is negative", time.Duration(h.BodyTimeout))
	}
	for _, f := range h.AllowFields {
		if err := checkField(f); err != nil {
			return err
		}
	}
	for _, check := range []func() error{
		h.checkQueue, h.checkClasses, h.checkDeadlineHeader, h.checkTenants, h.checkClientLimit, h.checkModels,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	if h.Usage != "" && h.Usage != observe && h.Usage != inject {
		return fmt.Errorf("usage: %q is neither 'observe' nor 'inject'", h.Usage)
	}
	if b := time.Duration(h.Heartbeat); b != 0 && (b < minHeartbeat || b > maxHeartbeat) {
		return fmt.Errorf("heartbeat: %v is out of range; have %v to %v, or 0 for none", b, minHeartbeat, maxHeartbeat)
	}
	if h.Errors != "" && h.Errors != write && h.Errors != pass {
		return fmt.Errorf("errors: %q is neither 'write' nor 'pass'", h.Errors)
	}
	return nil
}

func checkField(name string) error {
	if known := request.SteeringFields(); !slices.Contains(known, name) {
		return fmt.Errorf("allow_fields: %q is not a field that is refused; have %s", name, strings.Join(known, ", "))
	}
	return nil
}

func (h *Handler) maxBody() int64 {
	if h.MaxBody == 0 {
		return defaultMaxBody
	}
	return h.MaxBody
}

func (h *Handler) bodyTimeout() time.Duration {
	if h.BodyTimeout == 0 {
		return defaultBodyTimeout
	}
	return time.Duration(h.BodyTimeout)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
)
