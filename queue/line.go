package queue

import (
	"container/heap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// line is those who wait for the same: one endpoint, or whichever serves their
// model first.
type line struct {
	kind     string
	endpoint *llmlb.Endpoint // nil for a cold line
	flows    map[*tenant]*flow
	order    map[*class]*flows
	work     map[*class]int // prompt tokens, in the line of an endpoint
	calls    int
	blocked  uint64 // the version of the world in which its first could not be placed
}

// flow is the Calls of one tenant in one line, in the order of their arrival.
type flow struct {
	tenant     *tenant
	line       *line
	head, tail *Waiter
	work       int
	index      int
}

func newLine(kind string, e *llmlb.Endpoint) *line {
	return &line{
		kind: kind, endpoint: e,
		flows: make(map[*tenant]*flow), order: make(map[*class]*flows), work: make(map[*class]int),
	}
}

// add has the Call stand in line, for that much work.
func (l *line) add(w *Waiter, work int) {
	w.work = work
	f := l.flows[w.tenant]
	if f == nil {
		f = &flow{tenant: w.tenant, line: l}
		l.flows[w.tenant] = f
		w.tenant.flows = append(w.tenant.flows, f)
	}
	after := f.tail // arrivals come last, those who come back stand further ahead
	for after != nil && after.seq > w.seq {
		after = after.before
	}
	f.insert(w, after)
	w.flow = f
	f.work += w.work
	l.work[w.tenant.class] += w.work
	l.calls++
	o := l.order[w.tenant.class]
	if o == nil {
		o = new(flows)
		l.order[w.tenant.class] = o
	}
	if f.head == f.tail {
		heap.Push(o, f)
	} else if f.head == w {
		heap.Fix(o, f.index)
	}
}

func (f *flow) insert(w, after *Waiter) {
	w.before = after
	if after == nil {
		w.behind, f.head = f.head, w
	} else {
		w.behind, after.behind = after.behind, w
	}
	if w.behind == nil {
		f.tail = w
	} else {
		w.behind.before = w
	}
}

// drop takes the Call out of the line.
func (l *line) drop(w *Waiter) {
	f, c := w.flow, w.tenant.class
	first := f.head == w
	if w.before == nil {
		f.head = w.behind
	} else {
		w.before.behind = w.behind
	}
	if w.behind == nil {
		f.tail = w.before
	} else {
		w.behind.before = w.before
	}
	w.before, w.behind, w.flow = nil, nil, nil
	f.work -= w.work
	l.work[c] -= w.work
	l.calls--
	o := l.order[c]
	switch {
	case f.head == nil:
		heap.Remove(o, f.index)
		delete(l.flows, f.tenant)
		f.tenant.without(f)
		if o.Len() == 0 {
			delete(l.order, c)
			delete(l.work, c)
		}
	case first:
		heap.Fix(o, f.index)
	}
}

// top returns the first of a class, or nil.
func (l *line) top(c *class) *Waiter {
	if o := l.order[c]; o != nil {
		return (*o)[0].head
	}
	return nil
}

// first returns some Call that is first in its class, nil when nobody waits.
func (l *line) first() (w *Waiter) {
	for c := range l.order {
		if x := l.top(c); w == nil || x.comesBefore(w) {
			w = x
		}
	}
	return w
}

// comesBefore is the order of Calls whose turn it may be.
func (w *Waiter) comesBefore(v *Waiter) bool {
	if a, b := w.tenant.class.spec.Rank, v.tenant.class.spec.Rank; a != b {
		return a < b
	}
	if a, b := w.tenant.counter, v.tenant.counter; a != b {
		return a < b
	}
	return w.seq < v.seq
}

// tenants counts those with a Call of the class in the line.
func (l *line) tenants(c *class) int {
	if o := l.order[c]; o != nil {
		return o.Len()
	}
	return 0
}

// flows is a heap: whose turn it is comes first.
type flows []*flow

func (h flows) Len() int           { return len(h) }
func (h flows) Less(i, j int) bool { return h[i].head.comesBefore(h[j].head) }
func (h flows) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *flows) Push(x any)        { f := x.(*flow); f.index = len(*h); *h = append(*h, f) }
func (h *flows) Pop() any {
	old := *h
	f := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return f
}
