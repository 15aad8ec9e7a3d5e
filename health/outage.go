package health

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// outage follows whether checks have taken out every endpoint of a pool at once.
// Servers seldom fail together; what they share does, and so does what checks them.
type outage struct {
	since time.Time // zero while there is none
	count atomic.Uint64
}

// look notes how it stands now, and tells of its beginning and its end.
func (o *outage) look(r *runner, now time.Time) {
	s := r.pool.Current()
	serving := r.pool.AllDown(now)
	switch out := serving || allRefused(r.pool, s); {
	case out && o.since.IsZero():
		o.since = now
		o.count.Add(1)
		fields := []zap.Field{zap.String("pool", r.pool.Name())}
		if serving {
			r.log().Error("checks have taken out every endpoint; those whose requests do not fail are used all the same", append(fields,
				zap.String("to_do", "see the reasons in caddy llm-pool; if the servers are well, correct or turn off the check that fails"))...)
		} else {
			r.log().Error("checks have taken out every endpoint; requests are refused", append(fields,
				zap.String("to_do", "see the reasons in caddy llm-pool; all_down serve would use those whose requests do not fail"))...)
		}
	case !out && !o.since.IsZero():
		r.log().Info("checks no longer take out every endpoint",
			zap.String("pool", r.pool.Name()), zap.Duration("after", now.Sub(o.since).Round(time.Second)))
		o.since = time.Time{}
	}
}

// outages returns how often checks have taken out every endpoint of the pool since
// its background work began.
func outages(p *llmlb.Pool) (n uint64) {
	runners.Range(func(key, v any) bool {
		if key == p.Name() {
			n = v.(*runner).outage.count.Load()
		}
		return n == 0
	})
	return n
}

// allRefused reports whether requests are refused because checks have taken out
// every endpoint that could serve them.
func allRefused(p *llmlb.Pool, s *llmlb.Settings) (refused bool) {
	if s == nil || !s.Checks.Refuse {
		return false
	}
	p.Lock()
	defer p.Unlock()
	for _, e := range p.Members(s) {
		switch {
		case e.Draining():
		case e.CheckedOut(s):
			refused = true
		default:
			return false
		}
	}
	return refused
}
