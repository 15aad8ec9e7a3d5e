package llmlb

import "time"

// Progress is life: an endpoint that goes on producing tokens for others while
// one call waits is not stuck. It is busy, and that call stands in its queue.

// lifeKeep is how long a sign of life says something about now.
const lifeKeep = 10 * time.Second

// Progressed notes that the endpoint generated something. It takes no lock: it
// is called for every token.
func (e *Endpoint) Progressed(now time.Time) { e.progressAt.Store(now.UnixNano()) }

// progressed reports whether the endpoint is known to have generated something
// after the given moment, and not longer than keep ago. Under the pool's lock.
func (e *Endpoint) progressed(since, now time.Time, keep time.Duration) bool {
	if recent := now.Add(-keep); recent.After(since) {
		since = recent
	}
	return e.progressAt.Load() > since.UnixNano() || e.ledger.progressAt.After(since)
}

// Queued reports whether a call that has waited at the endpoint since the given
// moment may stand in its queue, rather than be lost. Ask again each time that
// more patience is due: what speaks for an endpoint has to happen anew.
//
// It may when the endpoint has generated something for others since: tokens of
// our own streams, answers that ended, or counters that rose from one scrape to
// the next. Where nothing can be seen of it, an older call of ours that shows no
// tokens speaks for the endpoint as long as its answer may plausibly take: a
// server with one slot works on that one first.
//
// None of it helps when the engine itself says, on a page that was read after
// the call was sent, that nobody waits there. A queue that is not known counts as
// one.
func (e *Endpoint) Queued(since, now time.Time, s *Settings) bool {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	if load, sig := e.Load(now, s), &e.ledger.signals; !load.Blind && sig.Waiting == 0 && sig.At.After(since) {
		return false
	}
	// What two pages tell is as old as the first of them.
	keep := max(lifeKeep, 3*s.Scrape.Interval)
	return e.progressed(since, now, keep) || e.busySilently(since, now)
}

// Quiet answers are those that show no tokens while they are generated.
const (
	// quietITL is the time between two tokens that is assumed where nothing has
	// taught better, in seconds.
	quietITL = 0.05

	// quietFactor and quietSlack (seconds) are how much longer than expected a
	// quiet answer may take and still speak for its endpoint.
	quietFactor, quietSlack = 2, 10
)

// Quiet notes that the answer will show no tokens before its end: one that comes
// whole, or a stream that is not read. due is when the first should have come that
// nobody sees, unless Begin has said so; zero where there is none before the end.
func (l *Lease) Quiet(due time.Time) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if !l.due.IsZero() {
		due = l.due
	}
	l.quietly(due)
}

// quietly notes it, and when the first token should have come that nobody sees.
func (l *Lease) quietly(due time.Time) {
	if l.phase == Done || l.phase == Visit {
		return
	}
	if l.due = due; l.phase == Prefill {
		if !due.IsZero() {
			l.endpoint.isQuietUntil(due)
		}
		l.silence()
	}
	l.endpoint.circuit.isQuiet(l.trial)
	if l.endpoint.quiet == nil {
		l.endpoint.quiet = make(map[*Lease]struct{})
	}
	l.endpoint.quiet[l] = struct{}{}
	l.endpoint.touch()
}

// busySilently reports whether a call of ours that shows no tokens was there
// before the given moment and has not taken too long yet.
func (e *Endpoint) busySilently(before, now time.Time) bool {
	if len(e.quiet) == 0 {
		return false
	}
	r, _ := e.Rate(now)
	itl := r.ITL
	if itl <= 0 {
		itl = quietITL
	}
	for l := range e.quiet {
		// It may have stood in the queue itself until the last sign of life.
		from := l.start.UnixNano()
		from = max(from, e.progressAt.Load())
		if !e.ledger.progressAt.IsZero() {
			from = max(from, e.ledger.progressAt.UnixNano())
		}
		took := time.Duration(now.UnixNano() - from).Seconds()
		due := quietFactor*(r.Predict(float64(l.ahead), float64(l.effort), 0)+itl*float64(l.work.Output)) + quietSlack
		if l.start.Before(before) && took < due {
			return true
		}
	}
	return false
}

const (
	// patientSpeed is the prefill speed, in tokens a second, that is reckoned with
	// where no server of the pool has shown one yet: they may be anything,
	// processors without an accelerator included.
	patientSpeed = 500

	// patientFactor is how many times slower than the others a server may be that
	// has not shown its own speed.
	patientFactor = 2
)

// Patience is how long the Call's first token is thought to take at most where it
// has been placed: what was predicted, and more on a server of unknown speed.
func (c *Call) Patience() time.Duration {
	predicted := c.Decision.Predicted
	l := c.Lease
	if l == nil {
		return predicted
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if l.endpoint.rates.samples >= enoughSamples {
		return predicted
	}
	for _, e := range l.pool.order {
		if e.rates.samples >= enoughSamples {
			return patientFactor * predicted // which goes by what the others have shown
		}
	}
	slow := float64(l.ahead+l.effort) / patientSpeed
	return max(predicted, time.Duration(min(slow, 3600)*float64(time.Second)))
}

// Lost returns a channel that is closed when the endpoint stops answering: what
// waits there for an answer waits in vain. Ask for it again after that.
func (e *Endpoint) Lost() <-chan struct{} {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	if e.lost == nil {
		e.lost = make(chan struct{})
	}
	return e.lost
}

// lose tells those who wait for an answer, unless the endpoint goes on
// generating for somebody. Under the pool's lock.
func (e *Endpoint) lose(now time.Time) {
	if e.lost != nil && !e.progressed(time.Time{}, now, lifeKeep) {
		close(e.lost)
		e.lost = nil
	}
}
