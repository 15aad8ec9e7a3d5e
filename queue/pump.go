package queue

import (
	"slices"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// maxMoves bounds how many Calls are placed or sent to another line under one
// lock. Those that stay where they are need no bound: in each line that is one.
const maxMoves = 64

// pump gives places to the Calls whose turn it is in the lines, as long as there
// is room: at the endpoint e, or anywhere when e is nil. It reports whether it
// stopped for its own bound.
func (q *Queue) pump(e *llmlb.Endpoint, now time.Time, lines ...*line) (again bool) {
	q.offerTo(lines)
	defer q.withdraw()
	held := saturation{queue: q, now: now}
	for moves := 0; moves < maxMoves; {
		p := q.next(&held)
		if p == nil {
			return e != nil && q.steal(e, &held, now)
		}
		l, w := p.line, p.first()
		switch at := q.try(w, now); {
		case at.Answer == Placed:
			moves++
			q.grant(w, now)
			held.known = false
			if at.Unbooked {
				return true
			}
			if e != nil && !q.room(e, now) {
				return false
			}
		case at.For != nil && at.For != l.endpoint:
			moves++
			q.move(w, q.warmLine(l.kind.name, at.For), at.Effort)
		case at.For == nil && l.endpoint != nil: // it has no reason to wait for this one any more
			moves++
			q.move(w, q.coldLine(l.kind.name), 0)
		default:
			l.block(q.version, p.class.spec.Rank)
		}
	}
	return true
}

// saturation is the pool's, asked for when a class goes by it.
type saturation struct {
	queue *Queue
	now   time.Time
	value float64
	known bool
}

// holds reports whether it keeps a class from starting anything.
func (s *saturation) holds(c *class) bool {
	if c.spec.Saturation <= 0 {
		return false
	}
	if !s.known {
		s.value, s.known = s.queue.world.Saturation(s.now), true
	}
	return s.value >= c.spec.Saturation
}

// offer is what a part's first Call was when it was put in order. Counters rise
// while places are given, of one tenant in many lines at a time; so parts are put
// where they belong when they come up, and not before.
type offer struct {
	counter float64
	seq     uint64
	at      int // place in class.offers
}

func offersBefore(p, r *part) bool {
	if a, b := p.offer.counter, r.offer.counter; a != b {
		return a < b
	}
	return p.offer.seq < r.offer.seq
}

// offerTo has next choose from these lines.
func (q *Queue) offerTo(lines []*line) {
	for _, l := range lines {
		for _, p := range l.parts {
			w := p.first()
			p.offer.counter, p.offer.seq = w.tenant.counter, w.seq
			p.class.offers.push(p)
		}
	}
}

func (q *Queue) withdraw() {
	for _, c := range q.classes {
		c.offers.clear()
	}
}

// firstOf returns the part of a class in which the first Call stands of those
// lines that are not blocked for it.
func (q *Queue) firstOf(c *class) *part {
	for h := &c.offers; ; {
		p := h.first()
		if p == nil {
			return nil
		}
		w := p.first()
		switch {
		case w == nil, p.barred(q.version):
			h.remove(p)
		case p.offer.seq == w.seq && p.offer.counter == w.tenant.counter:
			return p
		default:
			p.offer.counter, p.offer.seq = w.tenant.counter, w.seq
			h.fix(p)
		}
	}
}

// next returns the part whose turn it is. A lower class is next when it is owed
// what its first Call costs; classes of one rank are served by arrival.
func (q *Queue) next(held *saturation) (next *part) {
	for _, c := range slices.Backward(q.classes) {
		if c.owed > 0 && c.calls > 0 {
			if p := q.firstOf(c); p != nil && c.owed >= p.first().cost {
				return p
			}
		}
	}
	for _, c := range q.classes {
		switch {
		case next != nil && c.spec.Rank > next.class.spec.Rank:
			return next
		case c.calls == 0, held.holds(c):
		default:
			if p := q.firstOf(c); p != nil && (next == nil || p.first().seq < next.first().seq) {
				next = p
			}
		}
	}
	return next
}

// steal offers room that nobody in line could use to the Calls that would wait
// longest elsewhere: of each kind the last in the longest line. When that one
// would rather wait, so would all before it.
func (q *Queue) steal(e *llmlb.Endpoint, held *saturation, now time.Time) (again bool) {
	if len(q.warm) == 0 || len(q.warm) == 1 && len(q.warm[e]) > 0 || !q.room(e, now) {
		return false
	}
	moves := 0
	for _, c := range q.classes {
		for i := 0; i < len(q.kinds) && c.calls > 0 && !held.holds(c); {
			p := q.kinds[i].longestBut(e, c)
			if p == nil {
				i++
				continue
			}
			w := p.last()
			at := q.try(w, now)
			if at.Answer != Placed {
				i++
				continue
			}
			q.grant(w, now) // the kind may be gone by it, and another in its place
			held.known = false
			if moves++; at.Unbooked || moves >= maxMoves {
				return true
			}
			if !q.room(e, now) {
				return false
			}
		}
	}
	return false
}

func (q *Queue) room(e *llmlb.Endpoint, now time.Time) bool {
	room, _ := q.world.Room(e, now)
	return room
}

// try asks for a place.
func (q *Queue) try(w *Waiter, now time.Time) Placement {
	if len(q.warm) > 0 {
		w.Call.Line = w
	}
	w.Call.Last = q.pressed
	p := q.world.Place(w.Call, now)
	w.Call.Line, w.Call.Last = nil, q.pressed && p.Answer == Placed
	w.answer, w.why = p.Answer, p.Why
	return p
}
