package queue

import "time"

// Last takes a Call out whose time is over, as Remove does, and reports whether it
// waited in vain. Before that it is tried once more, out of turn, and takes any
// endpoint that has room, also one that is spared as long as others can wait. A class
// that is kept from starting anything gets nothing by this.
func (q *Queue) Last(w *Waiter, now time.Time) (inVain bool) {
	q.mu.Lock()
	held := saturation{queue: q, now: now}
	if w.flow != nil && !held.holds(w.tenant.class) {
		w.Call.Impatient = true
		q.pressed = true
		if q.try(w, now).Answer == Placed {
			q.grant(w, now)
		}
		q.pressed = false
	}
	q.mu.Unlock()
	return q.Remove(w, now)
}

// press gives places at endpoints that are spared, in order, when a Call of the class
// is one too many for the queue: somebody would have to be refused.
func (q *Queue) press(c *class, b Bounds, now time.Time) {
	calls, tokens := q.upTo(c)
	if calls <= b.Calls && (b.Tokens <= 0 || tokens <= b.Tokens) {
		return
	}
	var lines []*line
	for _, k := range q.kinds {
		if l := k.cold; l != nil && l.spares() {
			l.blocked = 0
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return
	}
	q.pressed = true
	if q.pump(nil, now, lines...) {
		q.again.Store(true)
	}
	q.pressed = false
}

// spares reports whether somebody in the line waits though an endpoint has room.
func (l *line) spares() bool {
	for _, p := range l.parts {
		if w := p.first(); w != nil && w.Call.Held {
			return true
		}
	}
	return false
}
