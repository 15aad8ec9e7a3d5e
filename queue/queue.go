package queue

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// World is what the queue asks of the pool. All three are called under the
// queue's lock and must not call it back.
type World struct {
	// Place tries to give the Call a place now.
	Place func(c *llmlb.Call, now time.Time) Placement

	// Room reports whether the endpoint could use more work, and whether it can
	// be used at all.
	Room func(e *llmlb.Endpoint, now time.Time) (room, usable bool)

	// Saturation is how much of what the pool can take it has, 1 being all.
	Saturation func(now time.Time) float64
}

// Answer is what came of an attempt to place a Call.
type Answer uint8

// The answers.
const (
	Nowhere Answer = iota // nothing that it could use is there at the moment
	Busy                  // what it could use has enough to do
	Placed
)

// Placement is an answer and what belongs to it.
type Placement struct {
	Answer Answer

	// For is the endpoint that a Busy Call would rather wait for than take any
	// other; nil when the first with room will do.
	For *llmlb.Endpoint

	// Effort is what computing the Call's prompt would take there: see llmlb.Work.
	Effort int

	// Why is more about it for whoever gave the answer: see Waiter.Why.
	Why uint8

	// Unbooked says that the Call is placed without a reservation, which a policy
	// makes later: what was free may be given only once until then.
	Unbooked bool
}

// Queue is where the Calls of one pool wait.
type Queue struct {
	world World

	waiting atomic.Int64 // calls, to be read without the lock

	mu      sync.Mutex
	classes []*class // by rank
	kinds   []*kind  // those that wait, in no order
	byName  map[string]*kind
	warm    map[*llmlb.Endpoint][]*line // the lines for an endpoint, by kind
	calls   int
	seq     uint64
	version uint64 // of the world: it rises when there may be room
	drain   drain
	looked  time.Time   // see relieve
	lines   []*line     // scratch of Freed
	again   atomic.Bool // see Again
	pressed bool        // who is not placed now may have to be refused
}

// New returns an empty queue.
func New(w World) *Queue {
	return &Queue{
		world: w, version: 1,
		byName: make(map[string]*kind), warm: make(map[*llmlb.Endpoint][]*line),
	}
}

// Bounds are how much may wait.
type Bounds struct {
	Calls  int // of a class and those above it
	Tokens int // likewise, prompts and expected output; 0 for no limit
}

// Entry is what becomes of a Call that asks to be let in.
type Entry uint8

// The entries.
const (
	Granted Entry = iota // at once; Ready has been called
	Waiting
	Hopeless   // what it would wait for comes after its time
	FullCalls  // as many wait as may
	FullTokens // their tokens are as many as may wait
)

// Push lets a Call in. It is placed at once if there is room and nobody stands
// before it, and waits otherwise, within the bounds: others may have to leave for
// it then (see Waiter.Out). A Call that was granted once
// and comes back keeps its place in the order and what it was charged.
func (q *Queue) Push(w *Waiter, b Bounds, now time.Time) Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.seq == 0 {
		q.seq++
		w.seq, w.since = q.seq, now
		w.tokens = w.Call.InputTokens + output(w.Call)
		w.cost = estimate(w.Call.InputTokens, w.Call)
	}
	w.queue, w.entered, w.answer = q, now, Busy
	c := q.class(w.Class)
	if q.straight(w, c, now) {
		return Granted
	}
	if p := w.flow.part; !w.tried && (!p.barred(q.version) || p.first() == w) {
		q.retry(p.line, now)
	}
	if w.flow == nil {
		return Granted
	}
	if at := w.Call.RetryAt; !at.IsZero() && !w.Until.IsZero() && at.After(w.Until) {
		q.leave(w)
		return Hopeless
	}
	if q.press(c, b, now); w.flow == nil {
		return Granted
	}
	if why := q.squeeze(w, c, b); why != Waiting {
		q.leave(w)
		return why
	}
	q.drain.waits(now)
	return Waiting
}

// straight places a Call before which nobody stands, as most find it. One that
// has to wait is in its line afterwards.
func (q *Queue) straight(w *Waiter, c *class, now time.Time) bool {
	t := c.tenant(w.Tenant)
	w.tenant = t
	if t.waiting == 0 {
		c.lift(t)
	}
	w.tried = false
	if k := q.byName[w.Kind]; k != nil && k.cold != nil || c.spec.Saturation > 0 && q.world.Saturation(now) >= c.spec.Saturation {
		q.enter(w, q.coldLine(w.Kind), 0)
		return false
	}
	// Whoever frees something from here on must find that somebody asks for it.
	q.waiting.Store(int64(q.calls + 1))
	defer func() { q.waiting.Store(int64(q.calls)) }()
	p := q.try(w, now)
	w.tried = true
	switch {
	case p.Answer == Placed:
		q.grant(w, now)
		return true
	case p.For != nil:
		q.enter(w, q.warmLine(w.Kind, p.For), p.Effort)
	default:
		l := q.coldLine(w.Kind)
		q.enter(w, l, 0)
		l.block(q.version, c.spec.Rank)
	}
	return false
}

// Remove takes a Call out, and reports whether it waited. One that does not has
// been granted its place.
func (q *Queue) Remove(w *Waiter, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.flow == nil {
		return false
	}
	p := w.flow.part
	first := p.first() == w
	q.leave(w)
	if first && p.line.calls > 0 && p.line.blocked == q.version {
		q.retry(p.line, now) // what barred it need not bar the next
	}
	return true
}

// retry tries the first of a line again.
func (q *Queue) retry(l *line, now time.Time) {
	l.blocked = 0
	if q.pump(l.endpoint, now, l) {
		q.again.Store(true)
	}
}

// Len returns how many Calls wait. It takes no lock.
func (q *Queue) Len() int { return int(q.waiting.Load()) }

// Freed says that the endpoint may have room, or has none any more. It reports
// whether it should be asked again at once: it has done as much as may be done
// under one lock.
func (q *Queue) Freed(e *llmlb.Endpoint, now time.Time) (again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.calls == 0 {
		return false
	}
	q.relieve(now)
	own := q.warm[e]
	room, usable := q.world.Room(e, now)
	switch {
	case !usable && len(own) > 0:
		q.disband(e)
		e, own = nil, nil
	case !room:
		return false
	}
	q.version++
	q.lines = append(q.lines[:0], own...)
	for _, k := range q.kinds {
		if k.cold != nil {
			q.lines = append(q.lines, k.cold)
		}
	}
	again = q.pump(e, now, q.lines...)
	clear(q.lines)
	return again
}

// Again reports, once, whether a Push or a Remove has left something undone, so
// that all endpoints should be asked again soon. It takes no lock.
func (q *Queue) Again() bool { return q.again.Load() && q.again.Swap(false) }

// disband sends those who waited for an endpoint back to where everybody waits.
func (q *Queue) disband(e *llmlb.Endpoint) {
	for len(q.warm[e]) > 0 {
		w := q.warm[e][0].parts[0].first()
		q.move(w, q.coldLine(w.flow.part.line.kind.name), 0)
	}
}

// Settle ends what began with a grant: the tenant is charged what the Call has
// cost in truth, in tokens as [Price] counts them. Only the first time counts,
// and a Call that was never granted costs nothing.
func (q *Queue) Settle(w *Waiter, actual float64) {
	if w == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !w.open {
		return
	}
	w.open = false
	w.tenant.open--
	w.charge(actual)
	w.tenant.class.rest(w.tenant)
}

// Price is what tokens cost: those of a prompt that were in a cache nothing,
// those generated twice as much as those computed of a prompt. The weights are
// those of "Fairness in Serving Large Language Models" (Sheng et al., 2024).
func Price(uncached, output int) float64 { return price(uncached, output) }

func price(uncached, output int) float64 {
	const outputWeight = 2
	return float64(max(0, uncached) + outputWeight*max(0, output))
}

// estimate is what a Call costs before it is known. It is never nothing: a tenant
// whose Calls were free would be first for ever.
func estimate(uncached int, c *llmlb.Call) float64 { return max(1, price(uncached, output(c))) }

// output is how much the Call is expected to generate.
func output(c *llmlb.Call) int {
	if !c.Generates() || c.Encodes {
		return 0
	}
	return c.ExpectedOutput()
}
