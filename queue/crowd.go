package queue

// measure is what the bounds of the queue are in.
type measure int

const (
	inCalls measure = iota
	inTokens
)

// has is how much of it the tenant has waiting.
func (t *tenant) has(m measure) int {
	if m == inCalls {
		return t.waiting
	}
	return t.tokens
}

// has is how much of it the Call is.
func (w *Waiter) has(m measure) int {
	if m == inCalls {
		return 1
	}
	return w.tokens
}

// Full reports whether a Call of the tenant could not wait now, should it have
// to: something to ask before its body is read.
func (q *Queue) Full(spec *Class, tenant string, b Bounds) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.class(spec)
	calls, tokens := q.upTo(c)
	ownCalls, ownTokens := 1, 1 // with the Call, of which no more is known
	if t := c.tenants[tenant]; t != nil {
		ownCalls, ownTokens = ownCalls+t.waiting, ownTokens+t.tokens
	}
	if calls > 0 && calls >= b.Calls {
		if b.Calls <= 0 || q.yielding(c, inCalls, calls+1-b.Calls, ownCalls) == nil {
			return true
		}
	}
	return b.Tokens > 0 && tokens >= b.Tokens && q.yielding(c, inTokens, tokens+1-b.Tokens, ownTokens) == nil
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

// squeeze keeps what waits within the bounds, now that one more does: by having
// Calls leave of whoever has the most, or else by telling why the new one must.
// So no tenant fills the queue to keep the others out.
func (q *Queue) squeeze(w *Waiter, c *class, b Bounds) Entry {
	var out [2][]*Waiter
	calls, tokens := q.upTo(c)
	if over := calls - b.Calls; over > 0 {
		if b.Calls <= 0 {
			return FullCalls
		}
		if out[inCalls] = q.yielding(c, inCalls, over, w.tenant.waiting); out[inCalls] == nil {
			return FullCalls
		}
	}
	for _, v := range out[inCalls] {
		tokens -= v.tokens
	}
	if over := tokens - b.Tokens; b.Tokens > 0 && over > 0 && calls > 1 {
		if out[inTokens] = q.yielding(c, inTokens, over, w.tenant.tokens); out[inTokens] == nil {
			return FullTokens
		}
	}
	for m, why := range []Entry{FullCalls, FullTokens} {
		for _, v := range out[m] {
			if v.flow != nil { // else it has left already, for the other bound
				q.turnOut(v, why)
			}
		}
	}
	return Waiting
}

// yielding returns the Calls that leave for a tenant which would have no more
// than own then, so that what waits is less by over: the newest of the tenant
// that has the most. It keeps as much as the other one gets; if it could not,
// nobody leaves. Classes of the same rank are looked at: those above have the
// first claim, and those below are not counted.
func (q *Queue) yielding(c *class, m measure, over, own int) (out []*Waiter) {
	var most *tenant
	for _, k := range q.classes {
		if k.spec.Rank != c.spec.Rank {
			continue
		}
		if t := k.crowds[m].first(); t != nil && (most == nil || t.has(m) > most.has(m)) {
			most = t
		}
	}
	if most == nil {
		return nil
	}
	left := most.has(m)
	for x := most.line.Back(); x != nil; x = x.Prev() {
		v := x.Value.(*Waiter)
		n := v.has(m)
		if v.Out == nil || n == 0 {
			continue
		}
		if left -= n; left < own {
			return nil
		}
		out = append(out, v)
		if over -= n; over <= 0 {
			return out
		}
	}
	return nil
}

// turnOut has a Call leave.
func (q *Queue) turnOut(w *Waiter, why Entry) {
	if w.flow.part.first() == w {
		q.again.Store(true) // what barred it need not bar the next
	}
	q.leave(w)
	w.Out(why)
}
