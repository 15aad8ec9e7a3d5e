package admission

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
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
	// request's body is held in memory until it is answered. Default: 32 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// How long a request body may take to arrive, after which the client gets
	// 408. Default: 30s.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// Body fields that would steer the engine past this gateway's choice, such
	// as "priority" or "data_parallel_rank", and that clients may send all the
	// same. Default: none; a body with one is answered 400.
	AllowFields []string `json:"allow_fields,omitempty"`

	// Who answers errors: "write" answers in OpenAI's JSON, "pass" leaves it to
	// the site's error routes. Default: write.
	Errors string `json:"errors,omitempty"`

	logger *zap.Logger
	handle *llmlb.Handle
	allow  map[string]bool
}

// Defaults of the options.
const (
	defaultMaxBody     = 32 << 20
	maxMaxBody         = 4 << 30 // a body is held in memory
	defaultBodyTimeout = 30 * time.Second
)

// The values of Errors.
const (
	write = "write"
	pass  = "pass"
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
	h.logger = ctx.Logger()
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
	return nil
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

// ServeHTTP admits one request, or answers it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	now := time.Now()
	settings, pool := h.handle.Settings(), h.handle.Pool()
	if before := llmlb.CallOf(r.Context()); before != nil && before.Pool == pool {
		return next.ServeHTTP(w, r) // admitted further up the same route
	}
	c := llmlb.NewCall(pool, settings, now)
	account := account{handler: h, call: c, request: r, begun: now}
	rec := &recorder{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}

	f, unread := h.admit(w, r, c)
	if f != nil {
		c.Refusal, c.Outcome = f.code, llmlb.Refused
		if f.status == statusClientGone {
			c.Outcome = llmlb.ClientGone
		}
		account.publish()
		return h.refuse(w, r, f, unread)
	}
	*r = *r.WithContext(llmlb.WithCall(r.Context(), c))
	account.publish()

	// However the proxy ends, also by a panic when the client or the upstream
	// breaks off, every reservation goes back. The panic goes on.
	returned := false
	defer func() { account.settle(rec, returned, nil) }()
	err := next.ServeHTTP(rec, r)
	returned = true
	if err == nil {
		return nil
	}
	f = upstreamFailed(rec, err)
	if f != nil {
		c.Refusal = f.code
	}
	account.settle(rec, returned, err)
	if f == nil || h.Errors == pass {
		return err
	}
	h.logFailure(c, f, err)
	return h.refuse(w, r, f, false)
}

// logFailure tells the operator why a client got an error of ours. The cause
// goes to the log alone: it has addresses in it.
func (h *Handler) logFailure(c *llmlb.Call, f *refusal, err error) {
	if he, ok := errors.AsType[caddyhttp.HandlerError](err); ok && he.Err != nil {
		err = he.Err // without Caddy's own file and line
	}
	fields := []zap.Field{
		zap.Int("status", f.status), zap.String("pool", h.handle.Name()),
		zap.Int("attempts", c.Attempts), zap.Error(err),
	}
	if e := c.Tried; e != nil {
		fields = append(fields, zap.String("endpoint", e.Name()), zap.String("address", e.Address()))
	}
	h.logger.Warn("answering for a failed upstream", fields...)
}

// admit reads the request and has an endpoint granted. What it returns is why
// the request ends here, and whether its body is still on the way.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request, c *llmlb.Call) (f *refusal, unread bool) {
	unread = r.ContentLength != 0
	what, methods := of(r, h.Paths)
	switch what {
	case closed:
		return notServed(), unread
	case wrongMethod:
		return &refusal{
			status: http.StatusMethodNotAllowed, code: "method_not_allowed", allow: allowed(methods),
			message: "This path does not take the method " + knownMethod(r.Method) + ".",
		}, unread
	default:
	}
	if c.Settings == nil {
		h.logger.Error("no reverse_proxy has an 'lb_policy llm' for the pool", zap.String("pool", h.handle.Name()))
		return noEndpoint(), unread
	}
	disarm(r)
	// A queue would ask here whether it has room, before the body is asked for.
	if r.Method == http.MethodConnect {
		unread = false // a tunnel has no end
	} else {
		body, f := h.take(w, r)
		if f != nil {
			return f, true
		}
		c.Body, unread = body, false
	}
	if what == passes {
		return nil, unread // Select finds a healthy endpoint
	}
	var err error
	c.Features, err = h.features(r, c)
	switch {
	case errors.Is(err, request.ErrTooLong):
		return h.tooLong(), unread
	case err != nil:
		return notAccepted(err), unread
	}
	c.Pool.Calibrate(c)
	// A queue would wait here for the Call's turn, and ask again after Full.
	switch selection.Grant(c, time.Now()) {
	case selection.Full:
		return atCapacity(), unread
	case selection.None:
		return noEndpoint(), unread
	default: // granted, or Select's to choose
		return nil, unread
	}
}

// features reads the body in its path's dialect, unfolded if it is compressed.
func (h *Handler) features(r *http.Request, c *llmlb.Call) (llmlb.Features, error) {
	body, err := decode(r.Header.Get("Content-Encoding"), c.Body, h.maxBody())
	if err != nil {
		return llmlb.Features{}, err
	}
	o := request.Options{
		Seed: selection.BlockSeed(), AffinityKey: c.Settings.AffinityKey,
		Session: request.SessionOf(r.Header), AllowFields: h.allow,
	}
	return request.Read(request.APIOf(r.URL.Path), body, &o)
}

// knownMethod keeps what a client made up out of our answers.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return method
	}
	return "of the request"
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
)
