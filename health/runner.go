package health

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// runners holds the runner of every pool that a started configuration names.
// Only started ones hold references: `caddy validate` starts nothing.
var runners = caddy.NewUsagePool()

// sweepInterval is how often dynamic endpoints are looked through for those
// that nobody has seen for long.
const sweepInterval = time.Minute

// runner is the background work of one pool, whatever the number of reloads.
type runner struct {
	pool   *llmlb.Pool
	epoch  time.Time // ticks of all loops count from here
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	loggers []ownLogger // of the running configurations, newest last
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
		r := &runner{pool: w.pool, epoch: time.Now(), cancel: cancel, done: make(chan struct{})}
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
	return nil
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

// supervise keeps one loop per endpoint that is to be scraped.
func (r *runner) supervise(ctx context.Context) {
	defer close(r.done)
	loops := make(map[*llmlb.Endpoint]*loop)
	defer func() {
		for _, l := range loops {
			l.stop()
		}
	}()
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for {
		r.reconcile(ctx, loops)
		select {
		case <-ctx.Done():
			return
		case <-r.pool.Wake():
		case <-sweep.C:
			r.pool.Sweep(time.Now())
		}
	}
}

// reconcile starts and ends loops until they fit the endpoints, and tells
// those that stay that the settings may have changed.
func (r *runner) reconcile(ctx context.Context, loops map[*llmlb.Endpoint]*loop) {
	s := r.pool.Current()
	wanted := make(map[*llmlb.Endpoint]bool)
	for _, e := range r.pool.Endpoints() {
		if scraped(s, e) {
			wanted[e] = true
		}
	}
	// End loops before any begins: an endpoint that was forgotten and seen
	// again has the same address, and must not be scraped twice at once.
	for e, l := range loops {
		if !wanted[e] {
			l.stop()
			delete(loops, e)
		}
	}
	for e := range wanted {
		if l := loops[e]; l != nil {
			l.nudge()
		} else {
			loops[e] = startLoop(ctx, r, e)
		}
	}
}

// scraped reports whether the endpoint is to be scraped under the settings.
func scraped(s *llmlb.Settings, e *llmlb.Endpoint) bool {
	return s != nil && s.Scrape.Engine != none && s.Upstream != nil &&
		(s.Dynamic || s.Member(e.Address()) != nil)
}

// stateChanged tells the operator that an endpoint went down or came back.
func (r *runner) stateChanged(c llmlb.Change) {
	level := zap.InfoLevel
	if c.To == llmlb.Down {
		level = zap.WarnLevel
	}
	fields := append(endpointFields(c.Endpoint), zap.Stringer("from", c.From), zap.Stringer("to", c.To))
	if c.Reason != "" {
		fields = append(fields, zap.String("reason", c.Reason))
	}
	r.log().Log(level, "endpoint state changed", fields...)
}

func endpointFields(e *llmlb.Endpoint) []zap.Field {
	return []zap.Field{
		zap.String("pool", e.Pool().Name()),
		zap.String("endpoint", e.Name()),
		zap.String("address", e.Address()),
	}
}
