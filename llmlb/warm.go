package llmlb

import "time"

const (
	// coldShare is the share with which an endpoint begins that has come, or has
	// come back.
	coldShare = 0.1

	// degradedShare is that of one that is far slower than it used to be.
	degradedShare = 0.25

	// together is how soon after one another endpoints must have come to count as
	// the beginning of a pool, in which there is nobody to warm up beside.
	together = 5 * time.Second
)

// Share is how much of its usual share of the work the endpoint is to get: 1, less
// while it warms up or is degraded. Under the pool's lock.
func (e *Endpoint) Share(now time.Time, s *Settings) float64 {
	share := 1.0
	if s == nil {
		return share
	}
	if over := s.Checks.WarmUp; over > 0 && !e.warmFrom.IsZero() {
		if since := now.Sub(e.warmFrom); since < over {
			share = coldShare + (1-coldShare)*max(0, since.Seconds())/over.Seconds()
		}
	}
	if e.generating.slow(s) {
		share *= degradedShare
	}
	return share
}

// joins notes that the endpoint is put to use, the first time. Under the pool's
// lock.
func (e *Endpoint) joins(now time.Time) {
	if !e.joined.IsZero() {
		return
	}
	e.joined = now
	if p := e.pool; p.begun.IsZero() {
		p.begun = now
	} else if now.Sub(p.begun) > together {
		e.warmFrom = now
		e.touch()
	}
	e.told, _, _ = e.State(now)
}
