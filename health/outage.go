package health

import (
	"time"

	"go.uber.org/zap"
)

// outage follows whether checks have taken out every endpoint of a pool at once.
// Servers seldom fail together; what they share does, and so does what checks them.
type outage struct {
	since   time.Time // zero while there is none
	serving bool      // it serves all the same, as was told last
}

// look notes how it stands now, and tells of its beginning and its end.
func (o *outage) look(r *runner, now time.Time) {
	serving := r.pool.AllDown(now)
	switch out := serving || r.pool.AllRefused(now); {
	case out && (o.since.IsZero() || serving != o.serving): // a reload can change which
		if o.since.IsZero() {
			o.since = now
		}
		o.serving = serving
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
