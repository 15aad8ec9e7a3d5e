package virtual

import (
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
)

// world is a pool of simulated servers behind one gateway, and what tests do with
// it.
type world struct {
	*sim
	*gateway
	router router // who gets the requests: the gateway unless said otherwise
	t      testing.TB
	texts  uint64 // passages made up so far
}

// newWorld returns a pool with the default settings and one endpoint for each
// engine, of which nothing is known yet. Nothing waits in the gateway.
func newWorld(t testing.TB, seed uint64, engines ...engine.Config) *world {
	t.Helper()
	s, err := newSim(seed, engines...)
	if err != nil {
		t.Fatal(err)
	}
	s.overhead = engine.APIOverhead
	g, err := newGateway(s, "virtual", scramble(seed), selection.StrategyWork)
	if err != nil {
		t.Fatal(err)
	}
	return &world{sim: s, gateway: g, router: g, t: t}
}

// scraped has all machines scraped from now on, each at a moment of its own.
func (w *world) scraped() *world {
	w.watch(w.gateway)
	return w
}

// of returns the machine's endpoint.
func (w *world) of(m *machine) *llmlb.Endpoint { return w.endpoints[m.number] }

// lies has tell change what the machine's scrapes say; it reports whether they say
// anything.
func (w *world) lies(m *machine, tell func(*llmlb.Signals) bool) {
	w.tell = func(x *machine, s *llmlb.Signals) bool { return x != m || tell == nil || tell(s) }
}

// send makes a call of the prompt, for nobody in particular.
func (w *world) send(p *prompt, then func(*visit)) { w.bring(nobody, p, then) }

// bring makes a call of the prompt.
func (w *world) bring(g *guest, p *prompt, then func(*visit)) *visit {
	v := w.sim.bring(w.router, p, p.input(), p.answer.tokens, then)
	v.guest = g
	if g.patience > 0 {
		w.after(g.patience, arrives, func() { w.hangUp(v) })
	}
	if w.router == router(w.gateway) {
		w.receive(v, g)
	} else {
		w.router.arrive(v)
	}
	return v
}

// speed is how fast the choice has learned the machine to be, in prompt tokens a
// second.
func (w *world) speed(m *machine) float64 {
	w.pool.Lock()
	defer w.pool.Unlock()
	r, _ := w.of(m).Rate(w.clock())
	return r.Speed
}

// until lets time pass until so many calls have ended.
func (w *world) until(calls int) {
	w.t.Helper()
	w.run(func() bool { return w.ended >= calls })
	if w.ended < calls {
		w.t.Fatalf("after %v nothing happens any more, and %d calls of %d have ended", w.now, w.ended, calls)
	}
}

// settle lets time pass until the first so many calls to arrive have all ended.
func (w *world) settle(calls int) {
	w.t.Helper()
	for done := 0; done < calls; {
		w.until(max(calls, w.ended+1))
		for done < len(w.visits) && w.visits[done].last > 0 {
			done++
		}
	}
}

// work returns the prefill work of the calls from the given one up to the other,
// by machine. All of them must have ended.
func (w *world) work(from, to int) []float64 {
	sum := make([]float64, len(w.machines))
	for _, v := range w.visits[from:to] {
		if v.last == 0 {
			w.t.Fatalf("call %d of %d to %d has not ended", v.id, from, to)
		}
		sum[v.machine.number] += float64(v.computed())
	}
	return sum
}

// count returns how many of the calls from the given one up to the other each
// machine got.
func (w *world) count(from, to int) []int {
	n := make([]int, len(w.machines))
	for _, v := range w.visits[from:to] {
		n[v.machine.number]++
	}
	return n
}

// meanTTFT returns the mean time to first token of those calls, in seconds.
func (w *world) meanTTFT(from, to int) float64 {
	sum := 0.0
	for _, v := range w.visits[from:to] {
		sum += (v.first - v.arrived).Seconds()
	}
	return sum / float64(to-from)
}
