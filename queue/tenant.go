package queue

import (
	"container/list"
	"slices"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// class is what is known of a Class while it has Calls, and for metrics after.
type class struct {
	spec    *Class
	tenants map[string]*tenant
	active  ordered[*tenant]    // those who wait, by what is settled of their counters
	crowds  [2]ordered[*tenant] // the same, by how much of each measure waits, the most first
	idle    *list.List          // those who neither wait nor have Calls open, the latest first
	offers  ordered[*part]      // while places are given: see Queue.next
	calls   int
	tokens  int
	cost    float64
	most    float64 // what the dearest Call has cost that waited, since nobody did
	owed    float64 // tokens that it is to have before those above it
	last    float64 // what was settled of whoever was served last
	waits   *llmlb.Histogram
}

// tenant is one tenant's account in one class.
type tenant struct {
	name    string
	class   *class
	counter float64 // tokens it has had, by its weight
	pending float64 // what of them is for Calls that are open, and may be given back
	flows   []*flow
	line    list.List // its Calls that wait, the newest last
	waiting int
	tokens  int     // of those
	cost    float64 // likewise
	open    int
	index   int // its places in class.active and class.crowds, while it waits
	crowdAt [2]int
	idle    *list.Element
}

const (
	// maxIdle bounds how many idle tenants of a class are remembered. One that is
	// forgotten loses a debt at most: who comes back is lifted anyway.
	maxIdle = 1024

	// maxClasses bounds the classes of all configurations whose Calls live.
	maxClasses = 64
)

// class returns the state of a Class, made if needed. The latest description of
// a name counts.
func (q *Queue) class(spec *Class) *class {
	var c *class
	if i := slices.IndexFunc(q.classes, func(c *class) bool { return c.spec.Name == spec.Name }); i >= 0 {
		if c = q.classes[i]; c.spec.Rank == spec.Rank {
			c.spec = spec
			return c
		}
		q.classes = slices.Delete(q.classes, i, i+1)
		c.spec = spec
	} else {
		if len(q.classes) >= maxClasses {
			q.classes = slices.DeleteFunc(q.classes, func(c *class) bool { return c.calls == 0 && len(c.tenants) == c.idle.Len() })
		}
		c = newClass(spec)
	}
	i, _ := slices.BinarySearchFunc(q.classes, spec.Rank, func(c *class, rank int) int { return c.spec.Rank - rank })
	q.classes = slices.Insert(q.classes, i, c)
	return c
}

func newClass(spec *Class) *class {
	c := &class{
		spec: spec, tenants: make(map[string]*tenant), idle: list.New(), waits: llmlb.NewHistogram(waitBounds),
		active: ordered[*tenant]{
			less:  func(t, u *tenant) bool { return t.settled() < u.settled() },
			place: func(t *tenant) *int { return &t.index },
		},
		offers: ordered[*part]{less: offersBefore, place: func(p *part) *int { return &p.offer.at }},
	}
	for m := range c.crowds {
		c.crowds[m] = ordered[*tenant]{
			less:  func(t, u *tenant) bool { return t.has(measure(m)) > u.has(measure(m)) },
			place: func(t *tenant) *int { return &t.crowdAt[m] },
		}
	}
	return c
}

// waitBounds are the bounds of the histogram of waits, in seconds.
var waitBounds = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900}

// tenant returns a tenant's account, made if needed.
func (c *class) tenant(name string) *tenant {
	t := c.tenants[name]
	if t == nil {
		t = &tenant{name: name, class: c}
		c.tenants[name] = t
	}
	c.wake(t)
	return t
}

// wake notes that a tenant is idle no more.
func (c *class) wake(t *tenant) {
	if t.idle != nil {
		c.idle.Remove(t.idle)
		t.idle = nil
	}
}

// rest notes that a tenant may have become idle.
func (c *class) rest(t *tenant) {
	if t.waiting > 0 || t.open > 0 || t.idle != nil {
		return
	}
	t.idle = c.idle.PushFront(t)
	if c.idle.Len() > maxIdle {
		last := c.idle.Remove(c.idle.Back()).(*tenant)
		delete(c.tenants, last.name)
	}
}

// settled is the counter without what may still be given back.
func (t *tenant) settled() float64 { return t.counter - t.pending }

// enter notes one more Call that waits. One that comes back is no new one.
func (t *tenant) enter(w *Waiter) {
	c := t.class
	if w.open {
		w.element = t.line.PushFront(w)
	} else {
		w.element = t.line.PushBack(w)
	}
	t.tokens += w.tokens
	t.cost += w.cost
	if t.waiting++; t.waiting == 1 {
		c.active.push(t)
		for m := range c.crowds {
			c.crowds[m].push(t)
		}
		return
	}
	for m := range c.crowds {
		c.crowds[m].fix(t)
	}
}

// leave notes that one of them waits no more.
func (t *tenant) leave(w *Waiter) {
	c := t.class
	t.line.Remove(w.element)
	w.element = nil
	t.tokens -= w.tokens
	t.cost -= w.cost
	if t.waiting--; t.waiting > 0 {
		for m := range c.crowds {
			c.crowds[m].fix(t)
		}
		return
	}
	t.cost = 0
	c.active.remove(t)
	for m := range c.crowds {
		c.crowds[m].remove(t)
	}
	c.rest(t)
}

// lift takes from a tenant who begins to wait what it did not use before: it is
// no further behind than whoever is the furthest of those who wait. What these
// may yet get back does not count: else one that claims much, and gets most of it
// back, would be served before all who came meanwhile.
func (c *class) lift(t *tenant) {
	least := c.last
	if c.active.len() > 0 {
		least = c.active.first().settled()
	}
	t.counter = max(t.counter, least)
}

// charge adds to a tenant's counter, less with a refund, and puts the tenant in
// its place wherever it waits. The weight is the Call's, so that a refund counts
// as much as the charge did, whatever a reload has changed.
func (w *Waiter) charge(cost float64) {
	weight := w.Weight
	if weight <= 0 {
		weight = 1
	}
	t := w.tenant
	t.counter += (cost - w.charged) / weight
	t.pending -= w.pending
	if w.pending = 0; w.open {
		w.pending = cost / weight
	}
	if t.pending += w.pending; t.open == 0 {
		t.pending = 0
	}
	w.charged = cost
	if t.waiting > 0 {
		t.class.active.fix(t)
	}
	for _, f := range t.flows {
		f.part.turn.fix(f)
	}
}

func (t *tenant) without(f *flow) {
	last := len(t.flows) - 1
	t.flows[f.at] = t.flows[last]
	t.flows[f.at].at = f.at
	t.flows[last] = nil
	t.flows = t.flows[:last]
}
