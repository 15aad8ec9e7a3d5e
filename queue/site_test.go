package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// site is a world in which an endpoint has a number of slots, and nothing else
// matters: no measuring, no guessing, so that what the queue does can be told
// beforehand.
type site struct {
	t          testing.TB
	queue      *Queue
	now        time.Time
	ends       []*end
	of         map[*llmlb.Endpoint]*end
	guests     map[*llmlb.Call]*guest
	saturation float64
	unbooked   bool // places are not reserved
	placed     []*guest
	tries      int
}

// end is one endpoint of a site.
type end struct {
	*llmlb.Endpoint
	slots, open int
	down        bool
	model       string // it serves this one only, where set
}

func (e *end) room() bool { return !e.down && e.open < e.slots }

// guest is one Call of a site.
type guest struct {
	Waiter
	name     string
	home     *end // where its prefix is
	patience int  // tokens that it lets go before it there
	at       *end // where it was placed
	ready    int
}

func newSite(t testing.TB, slots ...int) *site {
	s := &site{t: t, now: time.Unix(1_700_000_000, 0), of: make(map[*llmlb.Endpoint]*end), guests: make(map[*llmlb.Call]*guest)}
	s.queue = New(World{
		Place:      s.place,
		Room:       func(e *llmlb.Endpoint, _ time.Time) (room, usable bool) { return s.of[e].room(), !s.of[e].down },
		Saturation: func(time.Time) float64 { return s.saturation },
	})
	for _, n := range slots {
		e := &end{Endpoint: new(llmlb.Endpoint), slots: n}
		s.ends, s.of[e.Endpoint] = append(s.ends, e), e
	}
	return s
}

// place is the choice: the home if it has room; while it has none, it, as long as
// the guest's patience lasts; else the first with room.
func (s *site) place(c *llmlb.Call, _ time.Time) Placement {
	s.tries++
	p, e := s.choose(s.guests[c])
	if p.Answer == Placed {
		s.guests[c].at = e
		if e.open++; s.unbooked {
			e.open--
			p.Unbooked = true
		}
	}
	return p
}

func (s *site) choose(g *guest) (Placement, *end) {
	var free *end
	usable := 0
	for _, e := range s.ends {
		if e.down || e.model != "" && e.model != g.Kind {
			continue
		}
		usable++
		if e.room() && (free == nil || e == g.home) {
			free = e
		}
	}
	h := g.home
	switch {
	case usable == 0:
		return Placement{Answer: Nowhere}, nil
	case h != nil && !h.down && free != h && usable > 1 && s.ahead(g) <= g.patience && !g.Call.Impatient:
		return Placement{Answer: Busy, For: h.Endpoint, Effort: g.Call.InputTokens}, nil
	case free == nil:
		return Placement{Answer: Busy}, nil
	}
	return Placement{Answer: Placed}, free
}

func (s *site) ahead(g *guest) int {
	if l := g.Call.Line; l != nil {
		return int(l.Ahead(g.home.Endpoint))
	}
	return 0
}

// guest is a Call of so many tokens.
func (s *site) guest(name string, c *Class, tenant string, tokens int) *guest {
	g := &guest{name: name, patience: 1 << 30}
	g.Call = &llmlb.Call{Features: llmlb.Features{InputTokens: tokens, Encodes: true}}
	g.Class, g.Tenant = c, tenant
	g.Ready = func() {
		g.ready++
		s.placed = append(s.placed, g)
	}
	s.guests[g.Call] = g
	return g
}

var many = Bounds{Calls: 1 << 30}

func (s *site) push(g *guest) Entry { return s.queue.Push(&g.Waiter, many, s.now) }

// waits is push of one that must wait.
func (s *site) waits(all ...*guest) {
	s.t.Helper()
	for _, g := range all {
		if e := s.push(g); e != Waiting {
			s.t.Fatalf("%s: entry %d, and it should wait", g.name, e)
		}
	}
}

// freed tells of an endpoint until there is no more to be done.
func (s *site) freed(e *end) {
	for s.queue.Freed(e.Endpoint, s.now) || s.queue.Again() {
	}
}

// end ends a placed guest.
func (s *site) end(g *guest) {
	e := g.at
	g.at = nil
	delete(s.guests, g.Call)
	e.open--
	s.freed(e)
}

// give opens so many slots at an endpoint, one after the other.
func (s *site) give(e *end, slots int) {
	for range slots {
		e.slots++
		s.freed(e)
	}
}

// expect is who must have been placed, in this order, since it was asked last.
func (s *site) expect(names ...string) {
	s.t.Helper()
	got := []string{}
	for _, g := range s.placed {
		got = append(got, g.name)
	}
	s.placed = s.placed[:0]
	if !slices.Equal(got, names) {
		s.t.Errorf("placed %v, want %v", got, names)
	}
}

// check fails if the queue contradicts itself.
func (s *site) check() {
	s.t.Helper()
	if err := s.queue.contradiction(); err != nil {
		s.t.Fatal(err)
	}
}

// contradiction looks through all that the queue remembers.
func (q *Queue) contradiction() error {
	calls := make(map[*class]int)
	tokens := make(map[*class]int)
	waiting := make(map[*tenant]int)
	seen := make(map[*Waiter]bool)
	inLine := func(l *line) error {
		n := 0
		for _, p := range l.parts {
			if err := p.contradiction(); err != nil {
				return err
			}
			for _, f := range p.turn.items {
				waiting[f.tenant] += f.oldest.len()
				for _, w := range f.oldest.items {
					if seen[w] {
						return fmt.Errorf("waiter %d stands in two lines", w.seq)
					}
					seen[w] = true
					calls[p.class]++
					tokens[p.class] += w.tokens
					n++
				}
			}
		}
		if n != l.calls || n == 0 {
			return fmt.Errorf("%d stand in a line that counts %d", n, l.calls)
		}
		return nil
	}
	warm := make(map[*kind]int)
	for e, lines := range q.warm {
		for _, l := range lines {
			if warm[l.kind]++; l.endpoint != e || q.byName[l.kind.name] != l.kind {
				return fmt.Errorf("a line of kind %q is in the wrong place", l.kind.name)
			}
			if err := inLine(l); err != nil {
				return err
			}
		}
	}
	for i, k := range q.kinds {
		if k.index != i || k.warm != warm[k] || k.cold == nil && k.warm == 0 || len(q.byName) != len(q.kinds) {
			return fmt.Errorf("kind %q at %d says %d, with %d lines of %d", k.name, i, k.index, k.warm, warm[k])
		}
		if k.cold != nil {
			if err := inLine(k.cold); err != nil {
				return err
			}
		}
		parts := 0
		for _, h := range k.longest {
			parts += h.len()
			if err := inOrder(h); err != nil || h.len() == 0 {
				return fmt.Errorf("longest lines of %q: %w", k.name, err)
			}
		}
		if parts < k.warm || k.warm == 0 && parts > 0 {
			return fmt.Errorf("%d parts in %d lines", parts, k.warm)
		}
	}
	if q.calls != len(seen) || int(q.waiting.Load()) != q.calls {
		return fmt.Errorf("%d wait, %d and %d are counted", len(seen), q.calls, q.waiting.Load())
	}
	for i, c := range q.classes {
		switch {
		case i > 0 && q.classes[i-1].spec.Rank > c.spec.Rank:
			return fmt.Errorf("class %q is out of order", c.spec.Name)
		case c.calls != calls[c] || c.tokens != tokens[c]:
			return fmt.Errorf("class %q counts %d calls and %d tokens of %d and %d", c.spec.Name, c.calls, c.tokens, calls[c], tokens[c])
		case c.owed < 0 || c.cost < 0 || c.calls == 0 && c.owed+c.cost+c.most > 0:
			return fmt.Errorf("class %q: owed %v, cost %v, most %v", c.spec.Name, c.owed, c.cost, c.most)
		case c.offers.len() > 0:
			return fmt.Errorf("class %q has offers left", c.spec.Name)
		case c.idle.Len() > maxIdle:
			return fmt.Errorf("class %q remembers %d idle tenants", c.spec.Name, c.idle.Len())
		}
		if err := inOrder(&c.active); err != nil {
			return fmt.Errorf("tenants of %q: %w", c.spec.Name, err)
		}
		for m := range c.crowds {
			if err := inOrder(&c.crowds[m]); err != nil || c.crowds[m].len() != c.active.len() {
				return fmt.Errorf("tenants of %q by what waits: %w", c.spec.Name, err)
			}
		}
		active, idle := 0, 0
		for name, t := range c.tenants {
			if t.name != name || t.waiting != waiting[t] || t.open < 0 {
				return fmt.Errorf("tenant %q waits with %d of %d, and has %d open", name, t.waiting, waiting[t], t.open)
			}
			if t.waiting > 0 {
				active++
			}
			own := 0
			for x := t.line.Front(); x != nil; x = x.Next() {
				if w := x.Value.(*Waiter); seen[w] && w.element == x && w.tenant == t {
					own += w.tokens
				}
			}
			if t.line.Len() != t.waiting || t.tokens != own || t.open == 0 && t.pending != 0 || t.pending < 0 {
				return fmt.Errorf("tenant %q has %d of %d in line with %d tokens, not %d, and %v pending", name, t.line.Len(), t.waiting, t.tokens, own, t.pending)
			}
			if t.idle != nil {
				idle++
			}
			if (t.idle != nil) != (t.waiting == 0 && t.open == 0) {
				return fmt.Errorf("tenant %q is idle: %v, with %d waiting and %d open", name, t.idle != nil, t.waiting, t.open)
			}
			for i, f := range t.flows {
				if f.at != i || f.tenant != t || f.part.flows[t] != f {
					return fmt.Errorf("tenant %q has a flow that is not its own", name)
				}
			}
		}
		if active != c.active.len() || idle != c.idle.Len() {
			return fmt.Errorf("class %q: %d tenants of %d wait, %d of %d are idle", c.spec.Name, c.active.len(), active, c.idle.Len(), idle)
		}
	}
	return nil
}

func (p *part) contradiction() error {
	if p.turn.len() == 0 || len(p.flows) != p.turn.len() || p.line.endpoint != nil && p.heavy.len() != p.turn.len() {
		return fmt.Errorf("a part has %d flows, %d in order, %d by work", len(p.flows), p.turn.len(), p.heavy.len())
	}
	if err := inOrder(&p.turn); err != nil {
		return err
	}
	if err := inOrder(&p.heavy); err != nil {
		return err
	}
	work := 0
	for _, f := range p.turn.items {
		own := 0
		for _, w := range f.oldest.items {
			if own += w.work; w.flow != f || w.tenant != f.tenant {
				return fmt.Errorf("waiter %d does not know where it stands", w.seq)
			}
		}
		if err := inOrder(&f.oldest); err != nil {
			return err
		}
		if err := inOrder(&f.newest); err != nil {
			return err
		}
		if p.line.endpoint != nil && f.newest.len() != f.oldest.len() {
			return fmt.Errorf("%d came first, %d last", f.oldest.len(), f.newest.len())
		}
		if own != f.work {
			return fmt.Errorf("a flow of work %d says %d", own, f.work)
		}
		work += own
	}
	if work != p.work {
		return fmt.Errorf("a part of work %d says %d", work, p.work)
	}
	return nil
}

func inOrder[T any](h *ordered[T]) error {
	for i, x := range h.items {
		if *h.place(x) != i {
			return fmt.Errorf("what stands at %d of %d says that it is at %d", i, h.len(), *h.place(x))
		}
		if i > 0 && h.less(x, h.items[(i-1)/2]) {
			return fmt.Errorf("what stands at %d of %d comes before what is above it", i, h.len())
		}
	}
	return nil
}
