package queue

import (
	"slices"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// line is Calls of one kind that wait for the same: one endpoint, or whichever
// serves them first.
type line struct {
	kind     *kind
	endpoint *llmlb.Endpoint // nil for a cold line
	parts    []*part         // by class, in no order
	calls    int
	blocked  uint64    // the version of the world in which one could not be placed
	bar      int       // the least rank of those: see barred
	fed      time.Time // when one of it got its place last; see relieve
}

// part is the Calls of one class in a line.
type part struct {
	line  *line
	class *class
	flows map[*tenant]*flow
	turn  ordered[*flow] // whose turn it is
	heavy ordered[*flow] // who has the most work, where it is the line of an endpoint
	work  int
	rank  int // its place in kind.longest

	offer offer
}

// flow is the Calls of one tenant in one part of a line.
type flow struct {
	tenant *tenant
	part   *part
	oldest ordered[*Waiter] // in order of arrival
	newest ordered[*Waiter] // in reverse, where it is the line of an endpoint
	work   int
	turnAt int // its places in part.turn, part.heavy and tenant.flows
	mostAt int
	at     int
}

// block notes that the first of a class could not be placed.
func (l *line) block(version uint64, rank int) {
	if l.blocked == version {
		rank = min(rank, l.bar)
	}
	l.blocked, l.bar = version, rank
}

// barred reports whether whoever could not be placed keeps the part waiting: its
// own class, so that a big Call is not overtaken by all small ones, and those
// below. A class above has its turn, whatever a lower one could not use.
func (p *part) barred(version uint64) bool {
	return p.line.blocked == version && p.class.spec.Rank >= p.line.bar
}

// part returns the part of a class, nil when nobody of it is in line.
func (l *line) part(c *class) *part {
	for _, p := range l.parts {
		if p.class == c {
			return p
		}
	}
	return nil
}

func (l *line) makePart(c *class) *part {
	p := &part{line: l, class: c, flows: make(map[*tenant]*flow)}
	p.turn = ordered[*flow]{less: turnsBefore, place: func(f *flow) *int { return &f.turnAt }}
	p.heavy = ordered[*flow]{less: hasMore, place: func(f *flow) *int { return &f.mostAt }}
	l.parts = append(l.parts, p)
	if l.endpoint != nil {
		l.kind.longestOf(c).push(p)
	}
	return p
}

func (p *part) makeFlow(t *tenant) *flow {
	f := &flow{tenant: t, part: p}
	f.oldest = ordered[*Waiter]{less: cameBefore, place: func(w *Waiter) *int { return &w.oldAt }}
	f.newest = ordered[*Waiter]{less: cameAfter, place: func(w *Waiter) *int { return &w.newAt }}
	p.flows[t] = f
	t.flows = append(t.flows, f)
	f.at = len(t.flows) - 1
	return f
}

// add has the Call stand in line, for that much work.
func (l *line) add(w *Waiter, work int) {
	p := l.part(w.tenant.class)
	if p == nil {
		p = l.makePart(w.tenant.class)
	}
	f := p.flows[w.tenant]
	isNew := f == nil
	if isNew {
		f = p.makeFlow(w.tenant)
	}
	w.flow, w.work = f, work
	f.oldest.push(w)
	f.work += work
	p.work += work
	l.calls++
	switch {
	case isNew:
		p.turn.push(f)
	case f.first() == w:
		p.turn.fix(f)
	}
	if l.endpoint == nil {
		return
	}
	f.newest.push(w)
	if isNew {
		p.heavy.push(f)
	} else {
		p.heavy.fix(f)
	}
	l.kind.longestOf(p.class).fix(p)
}

// drop takes the Call out of the line.
func (l *line) drop(w *Waiter) {
	f := w.flow
	p := f.part
	first, warm := f.first() == w, l.endpoint != nil
	f.oldest.remove(w)
	if warm {
		f.newest.remove(w)
	}
	f.work -= w.work
	p.work -= w.work
	l.calls--
	w.flow = nil
	switch {
	case f.oldest.len() == 0:
		p.turn.remove(f)
		if warm {
			p.heavy.remove(f)
		}
		delete(p.flows, f.tenant)
		f.tenant.without(f)
	default:
		if first {
			p.turn.fix(f)
		}
		if warm {
			p.heavy.fix(f)
		}
	}
	switch {
	case p.turn.len() == 0:
		l.parts = slices.DeleteFunc(l.parts, func(x *part) bool { return x == p })
		if warm {
			l.kind.shorten(p)
		}
	case warm:
		l.kind.longestOf(p.class).fix(p)
	}
}

// first returns whose turn it is, nil when nobody waits.
func (p *part) first() *Waiter {
	if f := p.turn.first(); f != nil {
		return f.first()
	}
	return nil
}

// last returns who would be served last, as things are: the tenant with the most
// work here comes to an end last.
func (p *part) last() *Waiter { return p.heavy.first().newest.first() }

func (f *flow) first() *Waiter { return f.oldest.first() }

func cameBefore(w, v *Waiter) bool { return w.seq < v.seq }
func cameAfter(w, v *Waiter) bool  { return w.seq > v.seq }

// turnsBefore is the order of a class.
func turnsBefore(f, g *flow) bool {
	if a, b := f.tenant.counter, g.tenant.counter; a != b {
		return a < b
	}
	return f.first().seq < g.first().seq
}

func hasMore(f, g *flow) bool {
	if f.work != g.work {
		return f.work > g.work
	}
	return f.newest.first().seq > g.newest.first().seq
}
