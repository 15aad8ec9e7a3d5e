package queue

import (
	"container/heap"
	"slices"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// maxTries bounds how many Calls are tried under one lock.
const maxTries = 64

// pump gives places to the Calls whose turn it is in q.lines, as long as there is
// room: at the endpoint e, or anywhere when e is nil. It reports whether it
// stopped for its own bound.
func (q *Queue) pump(e *llmlb.Endpoint, now time.Time) (again bool) {
	saturation, known := 0.0, false
	held := func(c *class) bool {
		if c.spec.Saturation <= 0 {
			return false
		}
		if !known {
			saturation, known = q.world.Saturation(now), true
		}
		return saturation >= c.spec.Saturation
	}
	for range maxTries {
		l, w := q.next(held)
		if w == nil {
			return e != nil && q.steal(e, held, now)
		}
		p := q.try(w, now)
		switch {
		case p.Answer == Placed:
			q.grant(w, now)
			known = false
			if p.Unbooked {
				return true
			}
			if e != nil {
				if room, _ := q.world.Room(e, now); !room {
					return false
				}
			}
		case p.For != nil && p.For != l.endpoint:
			q.move(w, q.warmLine(p.For), p.Uncached)
		default:
			if l.endpoint != nil && p.For == nil {
				q.move(w, q.coldLine(w.Kind), 0) // it has no reason to wait for this one any more
				continue
			}
			l.blocked = q.version
			q.lines = slices.DeleteFunc(q.lines, func(x *line) bool { return x == l })
		}
	}
	return true
}

// next returns whose turn it is in q.lines, and the line. A lower class is next
// when it is owed what its first Call costs.
func (q *Queue) next(held func(*class) bool) (*line, *Waiter) {
	for _, c := range slices.Backward(q.classes) {
		if c.owed > 0 && c.calls > 0 {
			if l, w := q.firstOf(c); w != nil && c.owed >= w.cost {
				return l, w
			}
		}
	}
	for _, c := range q.classes {
		if c.calls == 0 || held(c) {
			continue
		}
		if l, w := q.firstOf(c); w != nil {
			return l, w
		}
	}
	return nil, nil
}

// firstOf returns the first Call of a class in q.lines.
func (q *Queue) firstOf(c *class) (in *line, first *Waiter) {
	for _, l := range q.lines {
		if w := l.top(c); w != nil && (first == nil || w.comesBefore(first)) {
			in, first = l, w
		}
	}
	return in, first
}

// steal offers room that nobody in line could use to the Call that would wait
// longest elsewhere: the last of the tenant with the most work in the longest
// line. When that one would rather wait, so would all before it.
func (q *Queue) steal(e *llmlb.Endpoint, held func(*class) bool, now time.Time) (again bool) {
	for range maxTries {
		if room, _ := q.world.Room(e, now); !room {
			return false
		}
		w := q.last(e, held)
		if w == nil {
			return false
		}
		p := q.try(w, now)
		if p.Answer != Placed {
			return false
		}
		q.grant(w, now)
	}
	return true
}

// last returns the Call that waits for another endpoint with the most before it.
func (q *Queue) last(e *llmlb.Endpoint, held func(*class) bool) *Waiter {
	var longest *flow
	most := 0
	for other, l := range q.warm {
		if other == e {
			continue
		}
		for _, f := range l.flows {
			switch n := l.work[f.tenant.class]; {
			case held(f.tenant.class), n < most:
			case longest == nil, n > most, f.work > longest.work,
				f.work == longest.work && f.tail.seq > longest.tail.seq:
				longest, most = f, n
			}
		}
	}
	if longest == nil {
		return nil
	}
	return longest.tail
}

// try asks for a place.
func (q *Queue) try(w *Waiter, now time.Time) Placement {
	if len(q.warm) > 0 {
		w.Call.Line = w
	}
	p := q.world.Place(w.Call, now)
	w.Call.Line = nil
	w.answer, w.why = p.Answer, p.Why
	return p
}

// grant takes a Call that has its place out of the queue, and charges it.
func (q *Queue) grant(w *Waiter, now time.Time) {
	c, t := w.tenant.class, w.tenant
	waited := now.Sub(w.entered)
	if w.flow != nil {
		q.leave(w)
	}
	w.answer = Placed
	cost := w.price()
	c.last = t.counter
	q.charge(t, cost-w.charged)
	w.charged = cost
	if !w.open {
		w.open = true
		t.open++
		c.wake(t)
	}
	c.waits.Observe(waited)
	q.owe(c, cost)
	q.drain.granted(now, cost, q.calls > 0)
	w.Ready()
}

// owe gives lower classes that wait their share of what a Call costs.
func (q *Queue) owe(c *class, cost float64) {
	c.owed = max(0, c.owed-cost)
	for _, k := range q.classes {
		if k.spec.Rank > c.spec.Rank && k.calls > 0 {
			// What one Call costs is enough: a share that cannot be taken now,
			// for want of a server, must not come back as a flood.
			k.owed = min(k.owed+k.spec.Share*cost, k.cost)
		}
	}
}

// enter has a Call wait in a line.
func (q *Queue) enter(w *Waiter, l *line, work int) {
	t, c := w.tenant, w.tenant.class
	if t.waiting == 0 {
		heap.Push(&c.active, t)
	}
	t.waiting++
	c.calls++
	c.tokens += w.tokens
	c.cost += w.cost
	q.calls++
	q.waiting.Store(int64(q.calls))
	q.tokens += w.tokens
	l.add(w, work)
}

// leave takes it out again.
func (q *Queue) leave(w *Waiter) {
	t, l := w.tenant, w.flow.line
	c := t.class
	l.drop(w)
	q.tidy(l)
	c.calls--
	c.tokens -= w.tokens
	c.cost -= w.cost
	q.calls--
	q.waiting.Store(int64(q.calls))
	q.tokens -= w.tokens
	if c.calls == 0 {
		c.owed, c.cost = 0, 0
	}
	if t.waiting--; t.waiting == 0 {
		heap.Remove(&c.active, t.index)
		c.rest(t)
	}
	if q.calls == 0 {
		q.drain.empty()
	}
}

// move has a Call stand in another line.
func (q *Queue) move(w *Waiter, to *line, work int) {
	from := w.flow.line
	from.drop(w)
	to.add(w, work)
	q.tidy(from)
}

func (q *Queue) findCold(kind string) *line {
	for _, l := range q.cold {
		if l.kind == kind {
			return l
		}
	}
	return nil
}

func (q *Queue) coldLine(kind string) *line {
	if l := q.findCold(kind); l != nil {
		return l
	}
	l := newLine(kind, nil)
	q.cold = append(q.cold, l)
	return l
}

func (q *Queue) warmLine(e *llmlb.Endpoint) *line {
	l := q.warm[e]
	if l == nil {
		l = newLine("", e)
		q.warm[e] = l
	}
	return l
}

// tidy forgets a line in which nobody stands.
func (q *Queue) tidy(l *line) {
	switch {
	case l.calls > 0:
	case l.endpoint != nil:
		delete(q.warm, l.endpoint)
	default:
		q.cold = slices.DeleteFunc(q.cold, func(x *line) bool { return x == l })
	}
}
