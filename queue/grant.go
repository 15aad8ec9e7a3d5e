package queue

import "time"

// grant takes a Call that has its place out of the queue, and charges it.
func (q *Queue) grant(w *Waiter, now time.Time) {
	c, t := w.tenant.class, w.tenant
	waited := now.Sub(w.entered)
	cost, behind := w.price(), q.calls
	if w.flow != nil {
		behind--
	}
	q.drain.granted(now, cost, behind > 0)
	if w.flow != nil {
		w.flow.part.line.fed = now
		q.leave(w)
	}
	w.answer = Placed
	c.last = t.settled()
	q.owe(c, cost-w.charged)
	if !w.open {
		w.open = true
		t.open++
		c.wake(t)
	}
	w.charge(cost)
	c.waits.Observe(waited)
	w.Ready()
}

// owe gives each class that waits its share of what a Call costs, and takes the
// cost from the one that has it.
func (q *Queue) owe(c *class, cost float64) {
	dearest := cost
	for _, k := range q.classes {
		dearest = max(dearest, k.most)
	}
	for _, k := range q.classes {
		owed := k.owed + k.spec.Share*cost
		if k == c {
			owed -= cost
		}
		if k.calls == 0 {
			owed = 0
		}
		// What one Call costs, and the share of another, is enough: what cannot be
		// taken now, for want of a server, must not come back as a flood.
		k.owed = max(0, min(owed, k.most+k.spec.Share*dearest))
	}
}

// enter has a Call wait in a line.
func (q *Queue) enter(w *Waiter, l *line, work int) {
	t, c := w.tenant, w.tenant.class
	t.enter(w)
	c.calls++
	c.tokens += w.tokens
	c.cost += w.cost
	c.most = max(c.most, w.cost)
	q.calls++
	q.waiting.Store(int64(q.calls))
	l.add(w, work)
}

// leave takes it out again.
func (q *Queue) leave(w *Waiter) {
	t, l := w.tenant, w.flow.part.line
	c := t.class
	l.drop(w)
	q.tidy(l)
	c.calls--
	c.tokens -= w.tokens
	c.cost -= w.cost
	q.calls--
	q.waiting.Store(int64(q.calls))
	if c.calls == 0 {
		c.owed, c.cost, c.most = 0, 0, 0
	}
	t.leave(w)
	if q.calls == 0 {
		q.drain.empty()
	}
}

// move has a Call stand in another line.
func (q *Queue) move(w *Waiter, to *line, work int) {
	from := w.flow.part.line
	from.drop(w)
	to.add(w, work)
	q.tidy(from)
}
