package simulator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
)

// origin is what the clock says when virtual time begins.
var origin = time.Unix(1_800_000_000, 0)

// world is a pool of simulated servers and the choice that production makes, in
// virtual time. A seed and a plan give the same run on every machine.
type world struct {
	timeline
	t        testing.TB
	rng      *rand.Rand
	pool     *llmlb.Pool
	settings *llmlb.Settings
	machines []*machine
	visits   []*visit // in the order of their arrival
	ended    int
	texts    uint64 // passages made up so far
	door     door   // see virtual_admission_test.go
}

// machine is one simulated server of the pool.
type machine struct {
	*replica
	world    *world
	number   int
	endpoint *llmlb.Endpoint
	open     map[uint64]*visit
	counters counters

	strangers uint64 // requests that came from elsewhere

	// tell changes what a scrape says, and reports whether it says anything.
	// Nil tells the truth.
	tell func(*llmlb.Signals) bool
}

// visit is one call from arrival to last token, and what became of it.
type visit struct {
	call                 *llmlb.Call
	id                   uint64
	machine              *machine
	decision             llmlb.Decision
	input, cached        int // prompt tokens, and those found in the engine's cache
	output               int
	arrived, first, last time.Duration
	then                 func(*visit) // when it has ended
	admission
}

// computed is the prefill work that the call was.
func (v *visit) computed() int { return v.input - v.cached }

// newWorld returns a pool with the default settings and one endpoint for each
// engine, of which nothing is known yet.
func newWorld(t testing.TB, seed uint64, engines ...engine.Config) *world {
	t.Helper()
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 0x11b)), pool: llmlb.NewPool("virtual"),
		settings: &llmlb.Settings{
			Pool: "virtual", Strategy: selection.StrategyWork, AffinityKey: scramble(seed),
			Affinity: llmlb.DefaultAffinity, MinTokens: llmlb.DefaultMinTokens, KVLimit: llmlb.DefaultKVLimit,
			Scrape: llmlb.Scrape{Interval: llmlb.DefaultInterval, StaleAfter: llmlb.DefaultStaleAfter},
		},
	}
	for i := range engines {
		w.settings.Members = append(w.settings.Members, llmlb.Member{Address: fmt.Sprintf("10.4.%d.%d:8000", seed%256, i+1)})
	}
	if err := w.pool.Bind(w.settings); err != nil {
		t.Fatal(err)
	}
	w.pool.Start(w.settings, w.clock())
	for i, cfg := range engines {
		m := &machine{world: w, number: i, endpoint: w.settings.Members[i].Endpoint, open: make(map[uint64]*visit)}
		m.replica = newReplica(t, &w.timeline, cfg, m.token)
		w.machines = append(w.machines, m)
	}
	return w
}

// clock is the present moment as the choice sees it.
func (w *world) clock() time.Time { return origin.Add(w.now) }

// scraped has all machines scraped from now on, each at a moment of its own.
func (w *world) scraped() *world {
	for _, m := range w.machines {
		phase := time.Duration(w.rng.Int64N(int64(w.settings.Scrape.Interval)))
		w.after(phase, scrapes, m.scrape)
	}
	return w
}

// send makes a call of the prompt, for nobody in particular.
func (w *world) send(p *prompt, then func(*visit)) { w.bring(nobody, p, then) }

// bring makes a call of the prompt. What happens in between is as in production:
// the length is estimated, an endpoint chosen and reserved, the engine's API
// server takes its time, and then the engine has it.
func (w *world) bring(g *guest, p *prompt, then func(*visit)) *visit {
	c := llmlb.NewCall(w.pool, w.settings, w.clock())
	c.Features = p.features()
	c.Stream, c.Tenant = !g.whole, g.tenant
	w.pool.Calibrate(c)
	v := &visit{
		call: c, id: uint64(len(w.visits)), input: p.input(), output: p.answer.tokens,
		arrived: w.now, then: then, admission: admission{guest: g, prompt: p},
	}
	w.visits = append(w.visits, v)
	w.admit(v)
	return v
}

// begin sends the call to the server it has its place at.
func (w *world) begin(v *visit, m *machine) {
	v.machine, v.decision, v.placed = m, v.call.Decision, w.now
	req := v.prompt.request(v.id, m.engine.Config().BlockSize)
	v.prompt = nil
	w.after(engine.APIOverhead, arrives, func() {
		if v.ends > 0 {
			return // the client has left
		}
		m.open[v.id] = v
		if err := m.add(req); err != nil {
			w.t.Fatal(err)
		}
	})
}

// machineOf returns the server behind the endpoint.
func (w *world) machineOf(e *llmlb.Endpoint) *machine {
	for _, m := range w.machines {
		if m.endpoint == e {
			return m
		}
	}
	return nil
}

// elsewhere gives the machine work that comes from another gateway: this one's
// choice knows of it only by what scrapes tell.
func (m *machine) elsewhere(p *prompt) {
	m.strangers++
	if err := m.add(p.request(m.strangers|stranger, m.engine.Config().BlockSize)); err != nil {
		m.world.t.Fatal(err)
	}
}

// stranger marks the ids of requests that came from elsewhere.
const stranger = 1 << 63

// token takes in one token of an answer, as the transport does.
func (m *machine) token(e engine.Event) {
	if e.ID >= stranger {
		return
	}
	v, now := m.open[e.ID], m.world.clock()
	c := v.call
	v.tokens++
	if c.Stream {
		c.TokenEvents++
		c.LastToken = now
	}
	if e.First {
		v.first, v.cached = m.line.now, e.Cached
		m.counters.firstToken(v.input, v.cached, v.first-v.placed)
		if c.Stream {
			c.SawFirstToken(now)
		}
	}
	if !e.Finished {
		return
	}
	delete(m.open, e.ID)
	c.PromptTokens, c.CachedTokens, c.OutputTokens = v.input, v.cached, v.output
	if !c.Stream {
		c.SawWhole(now)
	}
	c.EndAttempt(now, llmlb.Served)
	m.world.over(v)
}

// scrape reads the machine's numbers, and again after the interval.
func (m *machine) scrape() {
	w, st := m.world, m.engine.Stats()
	s := llmlb.NoSignals(w.clock())
	s.Engine = "vllm"
	s.Running, s.Waiting = float64(st.Running), float64(st.Waiting)
	s.KVUsage, s.KVUsageMax = st.KVUsage(), st.KVUsage()
	s.KVCapacity = float64(st.TotalBlocks * m.engine.Config().BlockSize)
	s.PromptTokens, s.CachedTokens = float64(m.counters.prompt), float64(m.counters.cached)
	s.GenerationTokens = float64(st.GeneratedTokens)
	s.TTFTSum, s.TTFTCount = m.counters.ttftSum, float64(m.counters.answers())
	s.ProcessStart = float64(origin.Unix())
	if m.tell == nil || m.tell(&s) {
		m.endpoint.ObserveSignals(s)
	} else {
		m.endpoint.ObserveScrapeError(s.At, "telling nothing")
	}
	w.after(w.settings.Scrape.Interval, scrapes, m.scrape)
}

// answers is how many first tokens there were.
func (c *counters) answers() (n int64) {
	for _, k := range c.ttft {
		n += k
	}
	return n
}

// speed is how fast the choice has learned the machine to be, in prompt tokens a
// second.
func (m *machine) speed() float64 {
	m.world.pool.Lock()
	defer m.world.pool.Unlock()
	r, _ := m.endpoint.Rate(m.world.clock())
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
