package health

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func init() {
	caddy.RegisterModule(new(App))
	caddy.RegisterModule(admin{})
}

// App keeps the pools of one configuration: it collects what the policies say
// about them, watches their endpoints, and gives the other modules their
// handles. It need not be configured; a policy brings it up.
type App struct {
	logger *zap.Logger

	mu      sync.Mutex
	handles map[string]*llmlb.Handle
	watched []*watched // in the order of registration
	started bool
	voice   *voice // nil where no handler could hear it
}

// watched is one pool that this configuration holds a reference to.
type watched struct {
	pool     *llmlb.Pool
	settings *llmlb.Settings
	begun    bool // its settings are, or were, the pool's current ones
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llmlb", New: func() caddy.Module { return new(App) }}
}

// Provision registers the metrics. It starts nothing.
func (a *App) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	a.handles = make(map[string]*llmlb.Handle)
	// Caddy makes a new registry for every configuration.
	if err := register(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	var err error
	if a.voice, err = newVoice(ctx, a.logger); err != nil {
		return fmt.Errorf("asking for the events app: %w", err)
	}
	if a.voice != nil {
		return a.voice.events.On("started", whenStarted(a.takeOver))
	}
	return nil
}

// Watch implements llmlb.Watcher. The settings of whoever registers a pool
// first are used: those that share it read them from the handle.
func (a *App) Watch(s *llmlb.Settings) (*llmlb.Handle, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Pool = cmp.Or(s.Pool, llmlb.DefaultPool)
	h := a.handle(s.Pool)
	if first := h.Settings(); first != nil {
		if first.Fingerprint != s.Fingerprint {
			return nil, conflict(first, s)
		}
		return h, nil
	}
	if err := checkScrape(&s.Scrape); err != nil {
		return nil, fmt.Errorf("pool %q (%s): %w", s.Pool, s.Where, err)
	}
	pool := llmlb.Acquire(s.Pool)
	if err := pool.Bind(s); err != nil {
		pool.Release()
		return nil, err
	}
	a.watched = append(a.watched, &watched{pool: pool, settings: s})
	h.Set(pool, s)
	return h, nil
}

func conflict(first, second *llmlb.Settings) error {
	if second.Pool == llmlb.DefaultPool {
		return fmt.Errorf("pool %q is described twice, differently: %s and %s; blocks with different upstreams or options each need a name of their own, set with 'pool'",
			second.Pool, first.Where, second.Where)
	}
	return fmt.Errorf("pool %q is described twice, differently: %s and %s; make them equal or name them differently",
		second.Pool, first.Where, second.Where)
}

// checkScrape refuses what no scrape could follow.
func checkScrape(s *llmlb.Scrape) error {
	if !slices.Contains(Engines(), cmp.Or(s.Engine, auto)) {
		return fmt.Errorf("engine %q is not known; have %s", s.Engine, strings.Join(Engines(), ", "))
	}
	if _, err := parseSource(s.Metrics); err != nil {
		return err
	}
	return nil
}

// Handle implements llmlb.Watcher.
func (a *App) Handle(pool string) *llmlb.Handle {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.handle(cmp.Or(pool, llmlb.DefaultPool))
}

func (a *App) handle(pool string) *llmlb.Handle {
	h := a.handles[pool]
	if h == nil {
		h = llmlb.NewHandle(pool)
		a.handles[pool] = h
	}
	return h
}

// Start makes the settings current and sees that the loops run. It checks
// first and changes nothing when it fails.
func (a *App) Start() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(a.handles)) {
		if a.handles[name].Settings() == nil {
			return fmt.Errorf("pool %q is used by llm_admission or llm_status but no 'lb_policy llm' describes it; have %s", name, a.poolNames())
		}
	}
	a.voice.start(a.watched)
	now := time.Now()
	for _, w := range a.watched {
		// The runner first: loops begin with the settings, and by then there is
		// a logger for what they find.
		startRunner(w, a.logger)
		// Apps start in any order, and another one may fail. What a running
		// configuration says of the pool holds until all have started: else calls
		// that wait would be served by one that never was.
		if a.voice == nil || w.pool.Current() == nil {
			w.begin(now)
		}
	}
	a.started = true
	return nil
}

// whenStarted is called when every app of the configuration has started.
type whenStarted func()

// Handle implements caddyevents.Handler.
func (f whenStarted) Handle(context.Context, caddy.Event) error {
	f()
	return nil
}

// takeOver makes all settings current that are not.
func (a *App) takeOver() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for _, w := range a.watched {
		w.begin(now)
	}
}

// begin makes the settings the pool's current ones, once.
func (w *watched) begin(now time.Time) {
	if !w.begun {
		w.begun = true
		w.pool.Start(w.settings, now)
	}
}

func (a *App) poolNames() string {
	if len(a.watched) == 0 {
		return "no pool at all"
	}
	names := make([]string, 0, len(a.watched))
	for _, w := range a.watched {
		names = append(names, fmt.Sprintf("%q", w.pool.Name()))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Stop hands the pools back to the newest configuration still running. Loops
// that nobody runs any more have ended when it returns.
func (a *App) Stop() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.started {
		return nil
	}
	now := time.Now()
	for _, w := range a.watched {
		if w.begun {
			w.pool.Stop(w.settings, now)
		}
		stopRunner(w)
	}
	a.voice.stop()
	a.started = false
	return nil
}

// Cleanup gives back what Watch took, also when loading failed half-way.
func (a *App) Cleanup() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.watched {
		w.pool.Unbind(w.settings)
		w.pool.Release()
	}
	a.watched = nil
	return nil
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
	_ llmlb.Watcher      = (*App)(nil)
)
