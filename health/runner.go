package health

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// runners holds the runner of every pool that a started configuration names.
// Only started ones hold references: `caddy validate` starts nothing.
var runners = caddy.NewUsagePool()

// sweepInterval is how often dynamic endpoints are looked through for those
// that nobody has seen for long.
const sweepInterval = time.Minute

// noticeInterval is how often it is looked for changes that come with nothing but
// time.
const noticeInterval = time.Second

// runner is the background work of one pool, whatever the number of reloads.
type runner struct {
	pool   *llmlb.Pool
	epoch  time.Time // ticks of all loops count from here
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	loggers []ownLogger // of the running configurations, newest last

	// upkeeps are changed by supervise alone, under keeping.
	keeping sync.Mutex
	upkeeps map[*llmlb.Endpoint]*upkeep
	outage  outage // of supervise
}

// ownLogger is the logger of one configuration. It must not be used once that
// configuration is gone: its writers may be closed.
type ownLogger struct {
	owner  *watched
	logger *zap.Logger
}

// startRunner sees that the pool has its runner, and takes a reference.
func startRunner(w *watched, logger *zap.Logger) {
	v, _, _ := runners.LoadOrNew(w.pool.Name(), func() (caddy.Destructor, error) {
		ctx, cancel := context.WithCancel(context.Background())
		r := &runner{pool: w.pool, epoch: time.Now(), cancel: cancel, done: make(chan struct{}), upkeeps: make(map[*llmlb.Endpoint]*upkeep)}
		w.pool.OnState(r.stateChanged)
		go r.supervise(ctx)
		return r, nil
	})
	r := v.(*runner)
	r.mu.Lock()
	r.loggers = append(r.loggers, ownLogger{owner: w, logger: logger})
	r.mu.Unlock()
}

// stopRunner gives the reference back.
func stopRunner(w *watched) {
	runners.Range(func(key, v any) bool {
		if key != w.pool.Name() {
			return true
		}
		r := v.(*runner)
		r.mu.Lock()
		r.loggers = slices.DeleteFunc(r.loggers, func(l ownLogger) bool { return l.owner == w })
		r.mu.Unlock()
		return false
	})
	_, _ = runners.Delete(w.pool.Name())
}

// Destruct ends the loops and waits for them.
func (r *runner) Destruct() error {
	r.cancel()
	<-r.done
	if r.pool.Busy() {
		go outlive(r.pool)
	}
	return nil
}

// outlive looks at a pool that no started configuration names any more, until its
// last request has ended or it has a runner again: limits of drains go on there.
func outlive(p *llmlb.Pool) {
	look := time.NewTicker(noticeInterval)
	defer look.Stop()
	for p.Busy() {
		if _, runs := runners.References(p.Name()); runs {
			return
		}
		p.Notice(time.Now())
		<-look.C
	}
}

// log returns the logger of the newest running configuration.
func (r *runner) log() *zap.Logger {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.loggers); n > 0 {
		return r.loggers[n-1].logger
	}
	return zap.NewNop()
}

// supervise keeps the loops of the endpoints, and looks about once a second for
// what changes with nothing but time.
func (r *runner) supervise(ctx context.Context) {
	defer close(r.done)
	defer r.endAll()
	sweep, look := time.NewTicker(sweepInterval), time.NewTicker(noticeInterval)
	defer sweep.Stop()
	defer look.Stop()
	r.reconcile(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.pool.Wake():
			r.reconcile(ctx)
		case <-sweep.C:
			r.pool.Sweep(time.Now())
			r.reconcile(ctx)
		case <-look.C:
			now := time.Now()
			r.pool.Notice(now)
			r.outage.look(r, now)
		}
	}
}

// reconcile starts and ends loops until they fit the endpoints, and tells
// those that stay that the settings may have changed.
func (r *runner) reconcile(ctx context.Context) {
	s := r.pool.Current()
	wanted := make(map[*llmlb.Endpoint][jobKinds]bool)
	for _, e := range r.pool.Endpoints() {
		if kept(s, e) {
			wanted[e] = want(s, e)
		}
	}
	// End loops before any begins: an endpoint that was forgotten and seen
	// again has the same address, and must not be scraped twice at once.
	for e, u := range r.upkeeps {
		u.end(wanted[e])
		if _, keep := wanted[e]; !keep {
			r.keeping.Lock()
			delete(r.upkeeps, e)
			r.keeping.Unlock()
		}
	}
	for e, jobs := range wanted {
		u := r.upkeeps[e]
		if u == nil {
			u = &upkeep{runner: r, endpoint: e}
		}
		r.keeping.Lock()
		r.upkeeps[e] = u
		u.begin(ctx, jobs)
		r.keeping.Unlock()
	}
}

// endAll ends all loops and waits for them.
func (r *runner) endAll() {
	for _, u := range r.upkeeps {
		u.end([jobKinds]bool{})
	}
}

// nudge has the jobs of an endpoint look at it again.
func (r *runner) nudge(e *llmlb.Endpoint) {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	if u := r.upkeeps[e]; u != nil {
		for _, l := range u.loops {
			if l != nil {
				l.nudge()
			}
		}
	}
}

// stateChanged tells the operator that an endpoint's state has changed, and its
// jobs, of which some have to look at once.
func (r *runner) stateChanged(c llmlb.Change) {
	emitState(c)
	r.nudge(c.Endpoint)
	fields := append(endpointFields(c.Endpoint), zap.Stringer("from", c.From), zap.Stringer("to", c.To))
	if c.Reason != "" {
		fields = append(fields, zap.String("reason", c.Reason))
	}
	r.log().Log(levelOf(c), "endpoint state changed", fields...)
}

// levelOf is the level at which a change is logged. An engine at its limit goes
// back and forth.
func levelOf(c llmlb.Change) zapcore.Level {
	switch {
	case c.To == llmlb.Down:
		return zap.WarnLevel
	case c.To == llmlb.Overload, c.From == llmlb.Overload && c.To == llmlb.Up:
		return zap.DebugLevel
	}
	return zap.InfoLevel
}

func endpointFields(e *llmlb.Endpoint) []zap.Field {
	return []zap.Field{
		zap.String("pool", e.Pool().Name()),
		zap.String("endpoint", e.Name()),
		zap.String("address", e.Address()),
	}
}
