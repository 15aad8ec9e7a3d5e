package selection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func init() {
	caddy.RegisterModule(new(Policy))
}

// Policy is a load balancing policy for LLM inference servers. It sends a
// request where it is predicted to be answered soonest: it knows the load of
// the servers from their own metrics and from what it has sent them, and which
// of them already holds the beginning of the prompt in its KV cache.
//
// It works alone in any reverse_proxy, with static and with dynamic upstreams;
// it then reads the body of chat and completion requests itself. A queue,
// limits that answer the client, and the time to the first token need the
// llm_admission handler and the llm transport around it.
type Policy struct {
	// Pool names the set of servers. Blocks that name the same pool share its
	// state and must say the same about it. Default: "default".
	Pool string `json:"pool,omitempty"`

	// Engine is the kind of the servers: "auto" tells it from their metrics,
	// "none" scrapes nothing. Default: "auto".
	Engine string `json:"engine,omitempty"`

	// Metrics is where the servers' metrics are: "/path" on the upstream's
	// address, ":port/path" on its host, or a URL in which {host} stands for
	// it. Default: the engine's own path.
	Metrics string `json:"metrics,omitempty"`

	// ScrapeInterval is how often each server's metrics are read, and how long
	// that may take. Default: 1s.
	ScrapeInterval caddy.Duration `json:"scrape_interval,omitempty"`

	// StaleAfter is the age at which numbers count for nothing. More than
	// ScrapeInterval. Default: 5s.
	StaleAfter caddy.Duration `json:"stale_after,omitempty"`

	// UpstreamAuth is the word "bearer" and a token, sent with scrapes. Global
	// placeholders such as {env.LLM_API_KEY} are resolved at load. Requests
	// carry it only if the proxy sets the header. Default: none.
	UpstreamAuth string `json:"upstream_auth,omitempty"`

	// Strategy is "work", which minimises the predicted time to first token
	// corrected for what the request does to others; "prefix_spill", which
	// stays with a server that holds the prefix until a threshold is reached;
	// or "weighted", which goes by the opinions of Scorers. Default: "work".
	Strategy string `json:"strategy,omitempty"`

	// Scorers are the opinions that "weighted" goes by, at most 8, each by its
	// weight. Default: queue 0.35, prefix 0.35, token_budget 0.20, errors 0.10.
	Scorers []Scorer `json:"scorers,omitempty"`

	// SelectionPolicyRaw is another of Caddy's policies, in place of Strategy:
	// it chooses among the servers that can be used.
	SelectionPolicyRaw json.RawMessage `json:"selection_policy,omitempty" caddy:"namespace=http.reverse_proxy.selection_policies inline_key=policy"`

	// Affinity, over 0 and up to 1: a server counts as warm when it holds at
	// least this share of the best match. Default: 0.8.
	Affinity float64 `json:"affinity,omitempty"`

	// AffinityMinTokens is how many prompt tokens a warm server holds at least. Of
	// a shorter prompt the share Affinity is enough.
	// Default: 512.
	AffinityMinTokens int `json:"affinity_min_tokens,omitempty"`

	// SpillWaiting is how many requests waiting at a warm server have it left.
	// 0 is off. Default: 3 with prefix_spill, off with work.
	SpillWaiting *float64 `json:"spill_waiting,omitempty"`

	// SpillTTFT is the time to first token over which a warm server is left. 0
	// is off. Default: 500ms with prefix_spill, off with work.
	SpillTTFT *caddy.Duration `json:"spill_ttft,omitempty"`

	// KVLimit, over 0 and up to 1, is the share of KV-cache memory above which
	// a server gets no new work while another is below. Default: 0.95.
	KVLimit float64 `json:"kv_limit,omitempty"`

	// AffinityKey keys where cold conversations go. Gateways in front of the
	// same servers agree when theirs is equal. Default: a constant.
	AffinityKey string `json:"affinity_key,omitempty"`

	// IndexBytes bounds the memory of the pool's prefix index. Default: 64 MiB.
	IndexBytes int64 `json:"index_bytes,omitempty"`

	// LocalZone is where this gateway stands. Servers of other zones are used
	// when none of this zone can be. Global placeholders such as {env.ZONE} are
	// resolved at load. Default: none, zones are not used.
	LocalZone string `json:"local_zone,omitempty"`

	// ORCA asks the servers for their load in the head of each answer, which is
	// newer than what was scraped. Default: false.
	ORCA bool `json:"orca,omitempty"`

	// Circuit is when failures take a server out of use. Default: after 5
	// failures in a row, or 50 % of the latest 20, for 10 seconds at first.
	Circuit *Circuit `json:"circuit,omitempty"`

	// Readiness is how servers are asked whether they are ready. Default: at the
	// engine's own path, every 5 seconds; 3 failures in a row take one out.
	Readiness *Readiness `json:"readiness,omitempty"`

	// Canary tries whether servers that nobody uses still generate. Default: off.
	Canary *Canary `json:"canary,omitempty"`

	// Initial is what a server that has never been checked is: "usable", or one
	// that "must_pass" a check before it gets anything. Default: "usable".
	Initial string `json:"initial,omitempty"`

	// WarmUp is over how long a server that has come, or come back, to a pool at
	// work gets its whole share: it begins with a tenth. 0 is off, up to 1h.
	// Default: 30s.
	WarmUp *caddy.Duration `json:"warm_up,omitempty"`

	// AllDown is what becomes of requests when checks have taken out every server:
	// "serve" sends them to those whose real traffic does not fail, "refuse" to
	// none. Default: "serve".
	AllDown string `json:"all_down,omitempty"`

	// SLO is what requests are held against in metrics. Default: nothing.
	SLO *SLO `json:"slo,omitempty"`

	// Endpoints says more about single upstreams.
	Endpoints []Endpoint `json:"endpoints,omitempty"`

	// MaxBody is how much of a request body is read where there is no
	// llm_admission handler. A longer one is forwarded whole, without being
	// understood, and cannot be sent a second time. Default: 32 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	logger   *zap.Logger
	handle   *llmlb.Handle
	selector reverseproxy.Selector // chooses in our place; nil with a strategy of our own
	alone    sync.Once
}

// Endpoint says more about one upstream.
type Endpoint struct {
	// Upstream is the upstream's dial address, as the proxy lists it.
	Upstream string `json:"upstream"`

	// Name is what people and metrics see in place of the address. Default:
	// "ep-" and six hex digits.
	Name string `json:"name,omitempty"`

	// Weight is how much work it gets for its speed, from 0.01 to 100: one of
	// weight 2 counts as twice as fast as it was seen to be. Default: 1.
	Weight float64 `json:"weight,omitempty"`

	// Zone is where it stands; see LocalZone. Default: none, which belongs to
	// every zone.
	Zone string `json:"zone,omitempty"`

	// MaxConcurrent is how many of our own requests it gets at once. Default:
	// no limit.
	MaxConcurrent int `json:"max_concurrent,omitempty"`

	// MaxTokens is how many of our own tokens are in flight there at most:
	// prompt tokens it has to compute, and the output expected. A request that
	// is larger by itself is let in when it is alone. Default: no limit.
	MaxTokens int `json:"max_tokens,omitempty"`

	// Drain gives it nothing new. Default: false.
	Drain bool `json:"drain,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*Policy) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.selection_policies.llm",
		New: func() caddy.Module { return new(Policy) },
	}
}

// Provision registers the pool with the app. It starts nothing and connects to
// nothing: "caddy validate" gets this far too.
func (p *Policy) Provision(ctx caddy.Context) error {
	p.logger = ctx.Logger()
	if err := p.check(); err != nil {
		return err
	}
	proxy := parent(ctx)
	if proxy == nil {
		return errors.New("lb_policy llm works in a reverse_proxy only")
	}
	if within(ctx) {
		return errors.New("lb_policy llm cannot be a fallback inside its own strategy")
	}
	settings, err := p.settings(proxy)
	if err != nil {
		return err
	}
	if settings.Scorers, err = p.loadScorers(ctx); err != nil {
		return err
	}
	if err := p.loadSelector(ctx); err != nil {
		return err
	}
	if proxy.ResponseBuffers != 0 {
		p.logger.Warn("response_buffers holds back streamed tokens until the buffer is full or the answer ends",
			zap.Int64("response_buffers", proxy.ResponseBuffers))
	}
	if lb := proxy.LoadBalancing; lb != nil && lb.TryDuration > 0 {
		p.logger.Warn("lb_try_duration keeps asking for a server after the client has left; use lb_retries",
			zap.Duration("lb_try_duration", time.Duration(lb.TryDuration)))
	}
	app, err := ctx.App("llmlb")
	if err != nil {
		return fmt.Errorf("getting the llmlb app: %w", err)
	}
	watcher, ok := app.(llmlb.Watcher)
	if !ok {
		return fmt.Errorf("the llmlb app is a %T, which watches nothing", app)
	}
	if p.handle, err = watcher.Watch(settings); err != nil {
		return err
	}
	indexOf(p.handle.Pool()).suggest(p.indexBytes())
	return nil
}

// parent returns the proxy that the policy stands in, be it through another
// policy's fallback.
func parent(ctx caddy.Context) *reverseproxy.Handler {
	for _, m := range slices.Backward(ctx.Modules()) {
		if h, ok := m.(*reverseproxy.Handler); ok {
			return h
		}
	}
	return nil
}

// within reports whether the policy stands in another of its kind.
func within(ctx caddy.Context) bool {
	n := 0
	for _, m := range ctx.Modules() {
		if _, ok := m.(*Policy); ok {
			n++
		}
	}
	return n > 1 // it is the last one itself
}

// Select returns the upstream for the next attempt, or nil when none may be
// used. It never waits for one, and writes nothing to the client but what another
// of Caddy's policies, when one chooses, puts into the header.
//
// The request is a clone that Caddy makes once and passes to every attempt, so
// what belongs to this proxying is kept in its context, set in place.
func (p *Policy) Select(upstreams reverseproxy.UpstreamPool, r *http.Request, w http.ResponseWriter) *reverseproxy.Upstream {
	now := time.Now()
	s, _ := r.Context().Value(servingKey{}).(*serving)
	if s == nil || s.policy != p {
		s = p.begin(r, now)
	}
	return s.next(upstreams, r, w, now)
}

// begin finds the request's Call, or makes one.
func (p *Policy) begin(r *http.Request, now time.Time) *serving {
	pool, settings := p.handle.Pool(), p.handle.Settings()
	ctx := r.Context()
	s := &serving{policy: p, index: indexOf(pool), call: llmlb.CallOf(ctx)}
	if s.call == nil || s.call.Pool != pool {
		if s.call == nil {
			p.alone.Do(p.sayAlone)
		}
		s.own = true
		s.call = llmlb.NewCall(pool, settings, now)
		p.read(r, s.call)
		ctx = llmlb.WithCall(ctx, s.call)
	}
	if s.index.bytes.Load() != p.indexBytes() && pool.Current() == settings {
		s.index.resize(p.indexBytes())
	}
	*r = *r.WithContext(context.WithValue(ctx, servingKey{}, s))
	return s
}

// sayAlone tells the operator what he has not got.
func (p *Policy) sayAlone() {
	p.logger.Info("no llm_admission in front of lb_policy llm: no limits that answer the client, and no time to first token per server unless the engine tells; llm_proxy sets all of it up",
		zap.String("pool", p.handle.Name()))
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Policy)(nil)
	_ caddyfile.Unmarshaler = (*Policy)(nil)
	_ reverseproxy.Selector = (*Policy)(nil)
)
