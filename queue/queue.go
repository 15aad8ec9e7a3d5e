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

	// Uncached is the prompt tokens that the Call would cost there.
	Uncached int

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
	cold    []*line  // a line for each kind of Call that waits, in order of their making
	warm    map[*llmlb.Endpoint]*line
	calls   int
	tokens  int
	seq     uint64
	version uint64 // of the world: it rises when there may be room
	drain   drain
	lines   []*line // scratch
}

// New returns an empty queue.
func New(w World) *Queue {
	return &Queue{world: w, warm: make(map[*llmlb.Endpoint]*line), version: 1}
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
// before it, and waits otherwise, within the bounds. A Call that was granted once
// and comes back keeps its place in the order and what it was charged.
func (q *Queue) Push(w *Waiter, b Bounds, now time.Time) Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.seq == 0 {
		q.seq++
		w.seq, w.since = q.seq, now
		w.tokens = w.Call.InputTokens + output(w.Call)
		w.cost = price(w.Call.InputTokens, output(w.Call))
	}
	w.queue, w.entered, w.answer = q, now, Busy
	c := q.class(w.Class)
	if q.straight(w, c, now) {
		return Granted
	}
	if l := w.flow.line; l.endpoint == nil && (l.blocked != q.version || l.first() == w) && !w.tried {
		q.lines = append(q.lines[:0], l)
		q.pump(nil, now)
	}
	if w.flow == nil {
		return Granted
	}
	calls, tokens := q.upTo(c)
	switch at := w.Call.RetryAt; {
	case !at.IsZero() && !w.Until.IsZero() && at.After(w.Until):
		q.leave(w)
		return Hopeless
	case calls > b.Calls:
		q.leave(w)
		return FullCalls
	case b.Tokens > 0 && tokens > b.Tokens && calls > 1:
		q.leave(w)
		return FullTokens
	}
	q.drain.waits(now)
	return Waiting
}

// straight places a Call before which nobody stands, as most find it. One that
// has to wait is in its line afterwards.
func (q *Queue) straight(w *Waiter, c *class, now time.Time) bool {
	t := c.tenant(w.Tenant, w.Weight)
	w.tenant = t
	if t.waiting == 0 {
		c.lift(t)
	}
	w.tried = false
	if q.findCold(w.Kind) != nil || c.spec.Saturation > 0 && q.world.Saturation(now) >= c.spec.Saturation {
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
		q.enter(w, q.warmLine(p.For), p.Uncached)
	default:
		l := q.coldLine(w.Kind)
		q.enter(w, l, 0)
		l.blocked = q.version
	}
	return false
}

// Full reports whether a Call of the class could not wait now, should it have to:
// something to ask before its body is read.
func (q *Queue) Full(c *Class, b Bounds) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	calls, tokens := q.upTo(q.class(c))
	return calls > 0 && calls >= b.Calls || b.Tokens > 0 && tokens >= b.Tokens
}

// upTo counts what waits of a class and of those above it.
func (q *Queue) upTo(c *class) (calls, tokens int) {
	for _, k := range q.classes {
		if k.spec.Rank <= c.spec.Rank {
			calls, tokens = calls+k.calls, tokens+k.tokens
		}
	}
	return calls, tokens
}

// Remove takes a Call out, and reports whether it waited. One that does not has
// been granted its place.
func (q *Queue) Remove(w *Waiter, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.flow == nil {
		return false
	}
	l := w.flow.line
	first := l.first() == w
	q.leave(w)
	if first && l.blocked == q.version {
		l.blocked = 0 // what barred it need not bar the next
		q.lines = append(q.lines[:0], l)
		q.pump(l.endpoint, now)
	}
	return true
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
	own := q.warm[e]
	room, usable := q.world.Room(e, now)
	switch {
	case !usable && own != nil:
		q.disband(own)
		e, own = nil, nil
	case !room:
		return false
	}
	q.version++
	q.lines = append(q.lines[:0], q.cold...)
	if own != nil {
		q.lines = append(q.lines, own)
	}
	return q.pump(e, now)
}

// disband sends those who waited for an endpoint back to where everybody waits.
func (q *Queue) disband(l *line) {
	for w := l.first(); w != nil; w = l.first() {
		q.move(w, q.coldLine(w.Kind), 0)
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
	t := w.tenant
	t.open--
	q.charge(t, actual-w.charged)
	w.charged = actual
	t.class.rest(t)
}

// Price is what tokens cost: those of a prompt that were in a cache nothing,
// those generated twice as much as those computed of a prompt. The weights are
// those of "Fairness in Serving Large Language Models" (Sheng et al., 2024).
func Price(uncached, output int) float64 { return price(uncached, output) }

func price(uncached, output int) float64 {
	const outputWeight = 2
	return float64(max(0, uncached) + outputWeight*max(0, output))
}

// output is how much the Call is expected to generate.
func output(c *llmlb.Call) int {
	if !c.Generates() || c.Encodes {
		return 0
	}
	return c.ExpectedOutput()
}
