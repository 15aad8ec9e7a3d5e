package simulator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

func init() {
	caddy.RegisterModule(Handler{})
	caddy.RegisterModule(admin{})
	httpcaddyfile.RegisterHandlerDirective("llm_simulator", parseCaddyfile)
	httpcaddyfile.RegisterDirectiveOrder("llm_simulator", httpcaddyfile.Before, "reverse_proxy")
}

// Defaults of the options.
const (
	defaultName        = "sim"
	defaultEngine      = "8b-h100"
	defaultModel       = "sim"
	defaultReplyTokens = 128
)

// maxSpeed keeps a step, a few milliseconds long, at some microseconds.
const maxSpeed = 1000

// servers holds the simulated servers by their options. A handler refers to
// its server from Provision to Cleanup and every generation while it lasts.
var servers = caddy.NewUsagePool()

// Handler is a simulated vLLM server. It answers /v1/chat/completions,
// /v1/completions, /v1/models, /health, /ping, /version and /metrics, and
// everything else with 404; it never calls the next handler.
//
// Handlers with the same options, in one configuration or in successive ones,
// are doors to the same server. Faults are not among these options: they belong
// to the handler.
type Handler struct {
	// Name says who serves: it is sent in the X-Simulator response header and
	// is part of the answer's text. Letters, digits, '.', '_' and '-'.
	// Default: "sim"; in a Caddyfile "sim-1", "sim-2", … in order of
	// appearance.
	Name string `json:"name,omitempty"`

	// Engine names the model and accelerator whose speed and memory are
	// simulated: 8b-h100, 8b-a100, 70b-h100x4, 70b-h100x8 or 32b-h100x2.
	// Default: "8b-h100".
	Engine string `json:"engine,omitempty"`

	// Model is the name under which the model is served. Default: "sim".
	Model string `json:"model,omitempty"`

	// Speed makes time run that many times faster, above 0 and up to 1000.
	// Default: 1.
	Speed float64 `json:"speed,omitempty"`

	// MaxSeqs bounds the sequences that run at once; others wait.
	// Default: what vLLM uses on the engine's hardware (256 or 1024).
	MaxSeqs int `json:"max_seqs,omitempty"`

	// KVTokens is the size of the KV memory in tokens. Default: the engine's.
	KVTokens int `json:"kv_tokens,omitempty"`

	// MaxBatchedTokens bounds the tokens of one step. Default: what vLLM uses
	// on the engine's hardware (2048 or 8192).
	MaxBatchedTokens int `json:"max_batched_tokens,omitempty"`

	// ReplyTokens is the length of an answer when the client sets none.
	// Default: 128.
	ReplyTokens int `json:"reply_tokens,omitempty"`

	// Faults are the ways in which the server fails, to rehearse with. Of
	// several the first that takes a request counts. A request's
	// X-Simulator-Fault header goes before them, and what the admin route has
	// set replaces them. Default: none.
	Faults []Fault `json:"faults,omitempty"`

	options options
	faults  []*rule
	server  *server
}

// options are a Handler's settings with all defaults filled in. They identify
// the simulated server, so they hold nothing that cannot be compared.
type options struct {
	name, model, preset                 string
	speed                               float64
	replyTokens                         int
	maxSeqs, kvTokens, maxBatchedTokens int
}

// config is the engine's. The preset is one that there is.
func (o *options) config() engine.Config {
	c, _ := engine.Preset(o.preset)
	c.MaxSeqs, c.KVTokens, c.MaxBatchedTokens = o.maxSeqs, o.kvTokens, o.maxBatchedTokens
	return c
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.llm_simulator",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision finds the simulated server or makes it.
func (h *Handler) Provision(caddy.Context) error {
	o, err := h.resolve()
	if err != nil {
		return err
	}
	rules, err := newRules(h.Faults, time.Now())
	if err != nil {
		return fmt.Errorf("checking faults: %w", err)
	}
	h.options = o
	v, _, err := servers.LoadOrNew(o, func() (caddy.Destructor, error) { return newServer(o) })
	if err != nil {
		return fmt.Errorf("making simulated server %q: %w", o.name, err)
	}
	// Set only now: Cleanup also runs after a failed Provision and must give
	// back exactly what was taken.
	h.server = v.(*server)
	h.faults = h.server.openDoor(rules)
	return nil
}

// resolve checks the options and fills in the defaults.
func (h *Handler) resolve() (options, error) {
	o := options{
		name:        orDefault(h.Name, defaultName),
		model:       orDefault(h.Model, defaultModel),
		preset:      orDefault(h.Engine, defaultEngine),
		speed:       orDefault(h.Speed, 1),
		replyTokens: orDefault(h.ReplyTokens, defaultReplyTokens),
	}
	if strings.Trim(o.name, nameLetters) != "" {
		return o, fmt.Errorf("checking name %q: only letters, digits, '.', '_' and '-' are allowed", o.name)
	}
	preset, ok := engine.Preset(o.preset)
	if !ok {
		return o, fmt.Errorf("checking engine %q: unknown; have %s", o.preset, strings.Join(engine.PresetNames(), ", "))
	}
	if o.speed <= 0 || o.speed > maxSpeed {
		return o, fmt.Errorf("checking speed %v: must be above 0 and at most %d", o.speed, maxSpeed)
	}
	if o.replyTokens < 1 {
		return o, fmt.Errorf("checking reply_tokens %d: must be at least 1", o.replyTokens)
	}
	o.maxSeqs = orDefault(h.MaxSeqs, preset.MaxSeqs)
	o.kvTokens = orDefault(h.KVTokens, preset.KVTokens)
	o.maxBatchedTokens = orDefault(h.MaxBatchedTokens, preset.MaxBatchedTokens)
	return o, nil
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// ServeHTTP answers as the simulated server.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	// A request may outlive the configuration it came in under, and come in
	// after that configuration was cleaned up. The pool knows which server is
	// the current one for these options, and keeps it while the request lasts.
	v, _ := servers.LoadOrStore(h.options, h.server)
	defer servers.Delete(h.options)
	s := v.(*server)

	w.Header().Set("X-Simulator", h.options.name)
	route, ok := routes[r.URL.Path]
	allowed := ok && slices.Contains(route.methods, r.Method)
	if allowed && route.format != nil {
		return s.generate(w, r, route.format, s.inForce(h.faults))
	}
	if r.ContentLength != 0 {
		// An answer that comes before the body was read ends the connection:
		// on HTTP/1 the rest of the body could be taken for requests.
		w.Header().Set("Connection", "close")
	}
	if struck, err := strikeEarly(w, r, wholeFault(s.inForce(h.faults), r.URL.Path), false); struck {
		return err
	}
	if !ok {
		return writeJSON(w, http.StatusNotFound, detail{"Not Found"})
	}
	if !allowed {
		w.Header().Set("Allow", strings.Join(route.methods, ", "))
		return writeJSON(w, http.StatusMethodNotAllowed, detail{"Method Not Allowed"})
	}
	return route.serve(s, w, r)
}

// Cleanup gives up the handler's hold on the server. Streams go on.
func (h *Handler) Cleanup() error {
	if h.server == nil {
		return nil
	}
	h.server.closeDoor(h.faults)
	_, err := servers.Delete(h.options)
	return err
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
