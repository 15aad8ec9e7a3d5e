package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// walk drives a queue from bytes: arrivals, departures at any moment, ends,
// returns, settlements, servers that go and come, grow and shrink. After each
// step nothing may contradict itself, and nobody may wait for what is free.
type walk struct {
	*oracle
	steps  []byte
	placed []*guest
	homes  bool // some wait for one endpoint
	n      int
}

var (
	walkClasses = []*Class{
		{Name: "first"},
		{Name: "second", Rank: 1, Share: 0.1},
		{Name: "held", Rank: 2, Share: 0.05, Saturation: 0.5},
	}
	walkModels = []string{"", "llama", "qwen"}
)

func newWalk(t testing.TB, steps []byte, homes bool) *walk {
	w := &walk{oracle: newOracle(t, 1, 2, 0, 1), steps: steps, homes: homes}
	w.oracle.classes = walkClasses
	w.ends[1].model, w.ends[2].model = "llama", "qwen"
	if homes {
		w.queue.world.Place = w.place // who is next where is not the oracle's to say
	}
	return w
}

// take returns the next byte, below n.
func (w *walk) take(n int) int {
	if len(w.steps) == 0 {
		return 0
	}
	b := w.steps[0]
	w.steps = w.steps[1:]
	return int(b) % n
}

func (w *walk) run() {
	for len(w.steps) > 0 {
		w.step()
		w.gather()
		w.check()
		w.nothingUnused()
	}
	w.finish()
}

func (w *walk) step() {
	w.now = w.now.Add(time.Millisecond)
	switch op := w.take(12); op {
	default:
		w.n++
		g := w.guest(fmt.Sprint(w.n), walkClasses[w.take(3)], fmt.Sprint("t", w.take(5)), 1+w.take(256)*w.take(16))
		g.Kind, g.Weight, g.patience = walkModels[w.take(3)], float64(w.take(3)), 3000
		if h := w.take(5); w.homes && h < len(w.ends) {
			g.home = w.ends[h]
			if m := g.home.model; m != "" {
				g.Kind = m
			}
		}
		w.arrives(g)
	case 5:
		if n := len(w.waiting); n > 0 {
			g := w.waiting[(w.take(256)<<8+w.take(256))%n]
			w.leaves(g)
			w.gather()
			w.settle(g)
		}
	case 6, 7, 8:
		if g := w.some(); g != nil {
			w.settle(g)
			e := g.at
			g.at = nil
			e.open--
			w.freed(e)
		}
	case 9:
		if g := w.some(); g != nil { // it comes back
			e := g.at
			g.at = nil
			e.open--
			w.freed(e)
			w.arrives(g)
		}
	case 10:
		e := w.ends[w.take(len(w.ends))]
		switch w.take(3) {
		case 0:
			e.down = !e.down
		case 1:
			e.slots = min(e.slots+1, 8)
		case 2:
			e.slots = max(0, e.slots-1)
		}
		w.freed(e)
	case 11:
		w.saturation = float64(w.take(10)) / 10
		for _, e := range w.ends {
			w.freed(e)
		}
	}
}

// some takes out one of those that were placed.
func (w *walk) some() *guest {
	w.gather()
	if len(w.placed) == 0 {
		return nil
	}
	i := w.take(256) % len(w.placed)
	g := w.placed[i]
	w.placed = append(w.placed[:i], w.placed[i+1:]...)
	return g
}

func (w *walk) settle(g *guest) {
	cost := float64(w.take(256) * w.take(8))
	if g.open {
		w.charge(g, cost)
		delete(w.refund, g)
	}
	w.queue.Settle(&g.Waiter, cost)
}

// gather takes in who was placed of late.
func (w *walk) gather() {
	for _, g := range w.site.placed {
		if w.placed = append(w.placed, g); g.at == nil {
			w.t.Fatalf("%s is placed nowhere", g.name)
		}
		if w.homes {
			w.left(g)
		}
	}
	w.site.placed = w.site.placed[:0]
	if w.queue.Len() != len(w.waiting) {
		w.t.Fatalf("%d wait, and %d should", w.queue.Len(), len(w.waiting))
	}
}

// nothingUnused fails if somebody waits who would take what is free.
func (w *walk) nothingUnused() {
	if w.homes { // it is asked at a scrape whether a line that has grown is too long by now
		for _, e := range w.ends {
			w.freed(e)
		}
		w.gather()
	}
	for _, g := range w.waiting {
		if w.held(g.Class) || g.flow.part.line.endpoint != nil {
			continue
		}
		if p, e := w.choose(g); p.Answer == Placed {
			w.t.Fatalf("%s waits, and there is room at %d", w.tell(g), w.at(e))
		}
	}
	for _, e := range w.ends {
		if e.room() {
			w.nobodyWouldLeaveFor(e)
		}
	}
}

// nobodyWouldLeaveFor asks the last of the longest line for another endpoint.
func (w *walk) nobodyWouldLeaveFor(e *end) {
	type at struct {
		kind  string
		class *Class
		end   *llmlb.Endpoint
	}
	line := make(map[at]int)
	own := make(map[*flow]int)
	for _, g := range w.waiting {
		if l := g.flow.part.line; l.endpoint != nil {
			line[at{g.Kind, g.Class, l.endpoint}] += g.work
			own[g.flow] += g.work
		}
	}
	for longest, work := range line {
		sole := longest.end != e.Endpoint && !w.held(longest.class)
		for other, n := range line {
			if other != longest && other.kind == longest.kind && other.class == longest.class && other.end != e.Endpoint && n >= work {
				sole = false
			}
		}
		if !sole {
			continue
		}
		var last *guest
		for _, g := range w.waiting {
			if g.Kind == longest.kind && g.Class == longest.class && g.flow.part.line.endpoint == longest.end &&
				(last == nil || own[g.flow] > own[last.flow] || own[g.flow] == own[last.flow] && g.seq > last.seq) {
				last = g
			}
		}
		last.Call.Line = &last.Waiter
		if p, to := w.choose(last); p.Answer == Placed {
			w.t.Fatalf("%s waits for %d, with %v before it, and would go to %d", w.tell(last), w.at(last.home), last.Ahead(last.home.Endpoint), w.at(to))
		}
		last.Call.Line = nil
	}
}

func (w *walk) at(e *end) int {
	for i := range w.ends {
		if w.ends[i] == e {
			return i
		}
	}
	return -1
}

// finish lets everybody through, and looks at what is left.
func (w *walk) finish() {
	w.saturation = 0
	for _, e := range w.ends {
		e.down, e.slots = false, 1<<30
	}
	for _, e := range w.ends {
		w.freed(e)
	}
	w.gather()
	if w.queue.Len() != 0 || len(w.queue.kinds)+len(w.queue.byName)+len(w.queue.warm) != 0 {
		w.t.Fatalf("%d wait with all free; %d kinds are left", w.queue.Len(), len(w.queue.kinds))
	}
	ready := 0
	for _, g := range w.placed {
		w.queue.Settle(&g.Waiter, 0)
		ready += g.ready
	}
	if ready < len(w.placed) {
		w.t.Errorf("%d were placed, and told %d times", len(w.placed), ready)
	}
	w.check()
	for _, c := range w.queue.classes {
		if c.idle.Len() != len(c.tenants) {
			w.t.Errorf("%d of %d tenants are idle in the end", c.idle.Len(), len(c.tenants))
		}
	}
}

// Whatever comes, those who look at everybody each time would have chosen the
// same, and no room is left unused.
func TestAsIfEverybodyWereLookedAt(t *testing.T) {
	for seed := range uint64(15) {
		newWalk(t, randomSteps(seed, 6000), false).run()
	}
}

// The same where some wait for the server that has their prefix.
func TestNoRoomIsLeftUnused(t *testing.T) {
	for seed := range uint64(15) {
		newWalk(t, randomSteps(seed, 6000), true).run()
	}
}

func randomSteps(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	steps := make([]byte, n)
	for i := range steps {
		steps[i] = byte(r.Uint32())
	}
	return steps
}

func FuzzQueue(f *testing.F) {
	f.Add(randomSteps(1, 300), true)
	f.Add(randomSteps(2, 300), false)
	f.Add([]byte{0, 1, 2, 3, 4, 5}, true)
	f.Fuzz(func(t *testing.T, steps []byte, homes bool) {
		newWalk(t, steps[:min(len(steps), 2000)], homes).run()
	})
}
