package llmlb

import "time"

// Progress is life: an endpoint that goes on producing tokens for others while
// one call waits is not stuck. It is busy, and that call stands in its queue.

// Progressed notes that the endpoint generated something. It takes no lock: it
// is called for every token.
func (e *Endpoint) Progressed(now time.Time) { e.progressAt.Store(now.UnixNano()) }

// Queued reports whether a call that has waited at the endpoint since the given
// moment may stand in its queue, rather than be lost: the endpoint has generated
// something for others since, and does not say that nobody waits there. A queue
// that is not known counts as one.
func (e *Endpoint) Queued(since, now time.Time, s *Settings) bool {
	if e.progressAt.Load() <= since.UnixNano() {
		return false
	}
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	load := e.Load(now, s)
	return load.Blind || e.ledger.signals.Waiting != 0
}
