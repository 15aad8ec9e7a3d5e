package llmlb

import "time"

// Phase is how far a Lease has come.
type Phase uint8

// The phases of a Lease.
const (
	Prefill Phase = iota // sent or about to be; no first token yet
	Visit                // books no work: a list of models, a health check
	Decode               // tokens flow
	Done                 // ended; counts for nothing
)

// Lease is a Call's reservation on an Endpoint. It is taken by Pool.Reserve in
// the same critical section that chose the endpoint, and given back exactly
// once by End, however often that is called.
type Lease struct {
	pool     *Pool
	endpoint *Endpoint
	work     Work
	effort   int
	phase    Phase
	start    time.Time
	cold     bool
	trial    uint64 // of a half-open circuit, by its number; 0 for none

	// What stood before it when it was taken: own effort, and what was thought to
	// be others'.
	ahead  int
	others float64
	hidden bool // among those ahead are some that show no first token

	due      time.Time  // when the first token is thought to have come of a quiet answer
	loading  bool       // see Loading
	silent   bool       // counts in the endpoint's silent
	first    firstToken // when measured
	measured bool
}

// Endpoint returns the endpoint reserved.
func (l *Lease) Endpoint() *Endpoint { return l.endpoint }

// Start returns when the reservation was made.
func (l *Lease) Start() time.Time { return l.start }

// Uncached returns the prompt tokens booked as work: those the endpoint is not
// believed to hold.
func (l *Lease) Uncached() int { return l.work.Uncached }

// FirstToken moves the Lease from prefill to decode. Calling it again, or
// after End, changes nothing.
func (l *Lease) FirstToken() {
	now := time.Now()
	l.pool.mu.Lock()
	l.firstToken(now)
	l.pool.mu.Unlock()
	l.pool.roomAt(l.endpoint)
}

func (l *Lease) firstToken(now time.Time) {
	if l.phase == Prefill {
		l.endpoint.ledger.firstToken(l.work)
		l.endpoint.prefills.remove(l, now)
		l.unsilence()
		l.phase = Decode
		l.endpoint.touch()
	}
}

// sawFirstToken does the same when the token was really seen, which teaches how
// fast the endpoint is.
func (l *Lease) sawFirstToken(now time.Time) {
	defer l.pool.roomAt(l.endpoint)
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if l.phase == Prefill {
		behind := l.endpoint.ledger.own.effort - l.effort
		clean := l.endpoint.nothingHidden(l)
		l.first = l.endpoint.rates.measure(l.start, now, l.ahead, l.others, behind)
		l.measured = clean && !l.loading
		l.endpoint.circuit.showed(l.trial, now)
		l.endpoint.touch()
	}
	l.firstToken(now)
}

// learnSpeed has the endpoint's speed learn from the first token seen, once, by
// the effort that was made for it.
func (l *Lease) learnSpeed(effort int) {
	l.pool.mu.Lock()
	learns := l.measured
	if learns {
		l.endpoint.rates.learn(l.first, effort)
		l.endpoint.touch()
		l.measured = false
	}
	l.pool.mu.Unlock()
	if learns {
		l.pool.roomAt(l.endpoint) // a faster one can use more
	}
}

// Loading notes that the endpoint has to load an adapter or a model for this
// Call first. Its first token then says nothing of the speed, and calls for the
// same will find it ready. Under the pool's lock.
func (l *Lease) Loading(model uint64) {
	l.loading = true
	l.endpoint.served.resident.expect(model, l.start)
	l.endpoint.touch()
}

// TakeCold notes that the endpoint takes a cold prefix with this Lease. Under the
// pool's lock, once, in the same critical section as the reservation.
func (l *Lease) TakeCold() {
	l.pool.coldTurns++
	l.endpoint.cold = l.pool.coldTurns
	l.endpoint.coldCalls++
	l.endpoint.touch()
	l.cold = true
}

// End gives the reservation back. Only the first call counts.
func (l *Lease) End(now time.Time) {
	l.pool.mu.Lock()
	if l.phase == Done {
		l.pool.mu.Unlock()
		return
	}
	l.unsilence()
	if l.phase != Visit {
		l.endpoint.ledger.release(l.phase, l.work)
		l.endpoint.prefills.remove(l, now)
	}
	if l.cold {
		l.endpoint.coldCalls--
	}
	if l.trial != 0 {
		l.endpoint.circuit.over(l.trial)
	}
	delete(l.endpoint.quiet, l)
	if l.loading && l.phase == Prefill {
		l.endpoint.served.resident.giveUp(l.start) // perhaps nothing is loaded after all
	}
	l.phase = Done
	l.endpoint.touch()
	l.endpoint.leases--
	l.endpoint.lastUse = now
	from := l.endpoint.told
	last := l.pool.leaseEnded(l.endpoint)
	left := l.endpoint.gone
	l.pool.mu.Unlock()
	l.pool.roomAt(l.endpoint)
	if left { // it was the last thing that ran on a removed server
		l.pool.changed(Change{Endpoint: l.endpoint, From: from, To: Drained, Reason: "no longer configured", At: now})
	}
	if last {
		// Outside the lock: the pool may be destructed by this.
		_, _ = pools.Delete(l.pool.name)
	}
}
