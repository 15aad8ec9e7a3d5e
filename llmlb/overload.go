package llmlb

import (
	"fmt"
	"time"
)

// MaxRetryAfter bounds how long a server's own Retry-After keeps new work away.
// What asks for more is held to it: a server that is well again should not stand
// idle for a number somebody made up.
const MaxRetryAfter = 30 * time.Second

const (
	// overloadFirst and overloadMost bound the pause after an overload answer
	// without a Retry-After. It doubles while such answers go on.
	overloadFirst = 250 * time.Millisecond
	overloadMost  = 5 * time.Second

	// overloadFade is how long after a pause without another such answer the
	// next one is the first again.
	overloadFade = 10 * time.Second
)

// overload is the state of an endpoint that has said it has too much to do. It
// is well, and it gets no new work until the pause is over. Pure; under the
// pool's lock.
type overload struct {
	since time.Time // when the pause began that is, or was the last
	until time.Time
	pause time.Duration // the last one that was not the server's own

	// most is how many calls of ours it could take when it said so, one more for
	// each it has served since. After the pause all who wait would otherwise be
	// sent there at once, to be refused again.
	most int
}

// said takes in an overload answer. retryAfter is what the server asked for, 0
// when it asked for nothing, and open how many calls of ours it had besides the one
// that it refused. Deadlines add up to the latest: a pause never
// becomes shorter.
func (o *overload) said(now time.Time, retryAfter time.Duration, open int) {
	pausing := now.Before(o.until)
	if !pausing {
		o.since = now
	}
	if now.Sub(o.until) >= overloadFade {
		o.pause, o.most = 0, 0
	}
	if o.most == 0 || open < o.most {
		o.most = max(1, open)
	}
	if retryAfter <= 0 {
		if !pausing || o.pause == 0 {
			// Of several answers in one pause only the first makes the next
			// one longer: they were all sent before it.
			o.pause = min(max(overloadFirst, 2*o.pause), overloadMost)
		}
		retryAfter = o.pause
	}
	if t := now.Add(min(retryAfter, MaxRetryAfter)); t.After(o.until) {
		o.until = t
	}
}

// served ends the doubling, not a pause that the server has asked for.
func (o *overload) served() {
	o.pause = 0
	if o.most > 0 {
		o.most++
	}
}

// CanTake returns how many calls of ours the endpoint is thought to take, by what
// it has refused of late; false when it has refused none. Under the pool's lock.
func (e *Endpoint) CanTake(now time.Time) (calls int, known bool) {
	o := &e.overload
	if o.most == 0 || now.Sub(o.until) >= overloadFade {
		return 0, false
	}
	return o.most, true
}

// Overloaded returns until when the endpoint takes no new work because it said
// that it has too much to do; false when it takes some. Under the pool's lock.
func (e *Endpoint) Overloaded(now time.Time) (until time.Time, _ bool) {
	return e.overload.until, now.Before(e.overload.until)
}

// NoteOverload notes an overload answer of the endpoint, with its Retry-After, 0
// for none. It is no change of state that anybody is told of: an engine at its
// limit says so several times a second.
func (e *Endpoint) NoteOverload(now time.Time, retryAfter time.Duration) {
	e.pool.mu.Lock()
	e.overload.said(now, retryAfter, max(0, e.ledger.own.calls()-1))
	e.touch()
	e.pool.mu.Unlock()
}

// overloadState reports whether the endpoint's state is that it has too much to
// do, why, and since when: it has said so, or its KV memory is fuller than
// kv_limit. Under the pool's lock.
func (e *Endpoint) overloadState(now time.Time, s *Settings) (reason string, since time.Time, _ bool) {
	if _, busy := e.Overloaded(now); busy {
		return "has too much to do", e.overload.since, true
	}
	if s == nil || s.KVLimit <= 0 {
		return "", time.Time{}, false
	}
	load := e.Load(now, s)
	if load.KVUsage < s.KVLimit {
		return "", time.Time{}, false
	}
	since = e.ledger.signals.At
	if e.told == Overload {
		since = e.toldAt // it has been so for longer than the last page tells
	}
	return fmt.Sprintf("KV memory %.0f%% full, kv_limit is %.0f%%", 100*load.KVUsage, 100*s.KVLimit), since, true
}
