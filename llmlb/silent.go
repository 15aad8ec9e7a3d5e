package llmlb

import "time"

// silent is own calls that will show no first token, because their answers come
// whole.
type silent struct {
	calls, tokens int       // whose first is not thought to have come yet, and of their prompts
	last          time.Time // when the newest was sent
}

// Silent returns how many of our own calls count as being without a first token
// and will show none, and their uncached prompt tokens. Under the pool's lock.
func (e *Endpoint) Silent() (calls, tokens int) { return e.silent.calls, e.silent.tokens }

// silence notes that the Lease is of such a call. Under the pool's lock.
func (l *Lease) silence() {
	if l.silent {
		return
	}
	l.silent = true
	l.endpoint.silent.calls++
	l.endpoint.silent.tokens += l.work.Uncached
	l.endpoint.silent.last = l.start
}

// unsilence notes that its first token has come, as is thought, or will not.
func (l *Lease) unsilence() {
	if l.silent {
		l.silent = false
		l.endpoint.silent.calls--
		l.endpoint.silent.tokens -= l.work.Uncached
	}
}

// nothingHidden reports whether the engine computed nothing that nobody saw in the
// time by which the first token of the Lease tells its speed. Otherwise the few
// streams among many answers that come whole would count as all that it has done,
// and it as a tenth as fast as it is.
func (e *Endpoint) nothingHidden(l *Lease) bool {
	from := l.start
	if e.rates.lastFirst.After(from) {
		from = e.rates.lastFirst
	}
	return !l.hidden && !e.silent.last.After(from)
}
