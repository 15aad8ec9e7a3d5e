package virtual

import (
	"fmt"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
)

// gateway is this project's own: a pool with its account and its queue, wired as
// the handlers do it, but by the simulation's clock.
type gateway struct {
	sim       *sim
	pool      *llmlb.Pool
	settings  *llmlb.Settings
	endpoints []*llmlb.Endpoint
	queue     *queue.Queue // nil: the choice is made as a request arrives
	bounds    queue.Bounds
	tickAt    time.Time
	again     bool // the queue has left something undone, for tickAt
	placed    int  // requests so far

	// tell changes what a scrape says, and reports whether it says anything.
	// Nil tells the truth.
	tell func(*machine, *llmlb.Signals) bool
}

// guest is whom a request comes from.
type guest struct {
	class  *queue.Class
	tenant string
	weight float64
	whole  bool // the answer is to come in one piece

	// patience is how long after its arrival the client waits for the end. 0 is as
	// long as it takes.
	patience time.Duration
}

// turn is what a gateway knows of a request.
type turn struct {
	call     *llmlb.Call
	decision llmlb.Decision
	waiter   *queue.Waiter
}

func (v *visit) turn() *turn { return v.of.(*turn) }

// newGateway returns a gateway with the default settings, which knows nothing of
// the servers yet. Gateways of the same affinity key agree on homes.
func newGateway(s *sim, name string, affinity uint64, strategy string) (*gateway, error) {
	g := &gateway{
		sim: s, pool: llmlb.NewPool(name), bounds: queue.Bounds{Calls: 1024},
		settings: &llmlb.Settings{
			Pool: name, Strategy: strategy, AffinityKey: affinity,
			Affinity: llmlb.DefaultAffinity, MinTokens: llmlb.DefaultMinTokens, KVLimit: llmlb.DefaultKVLimit,
			Scrape: llmlb.Scrape{Interval: s.interval, StaleAfter: max(llmlb.DefaultStaleAfter, 3*s.interval)},
		},
	}
	for i := range s.machines {
		g.settings.Members = append(g.settings.Members, llmlb.Member{Address: fmt.Sprintf("10.4.%d.%d:8000", s.seed%256, i+1)})
	}
	if err := g.pool.Bind(g.settings); err != nil {
		return nil, err
	}
	g.pool.Start(g.settings, s.clock())
	for i := range g.settings.Members {
		g.endpoints = append(g.endpoints, g.settings.Members[i].Endpoint)
	}
	return g, nil
}

// machineOf returns the server behind the endpoint.
func (g *gateway) machineOf(e *llmlb.Endpoint) *machine {
	for i, x := range g.endpoints {
		if x == e {
			return g.sim.machines[i]
		}
	}
	return nil
}

// receive makes a call of a request. What happens is as in production: the length
// is estimated, a place found and reserved, now or when there is one.
func (g *gateway) receive(v *visit, from *guest) {
	s := g.sim
	c := llmlb.NewCall(g.pool, g.settings, s.clock())
	c.Features = v.content.features()
	c.Stream, c.Class, c.Tenant = !from.whole, from.class.Name, from.tenant
	g.pool.Calibrate(c)
	v.of, v.guest = &turn{call: c}, from
	g.arrive(v)
}

func (g *gateway) arrive(v *visit) {
	if g.queue != nil {
		g.push(v)
		return
	}
	c := v.turn().call
	if selection.Grant(c, g.sim.clock()) != selection.Granted {
		g.sim.refuse(v)
		return
	}
	g.send(v)
}

// send is what the proxy does with a call that has its place.
func (g *gateway) send(v *visit) {
	t, s := v.turn(), g.sim
	e := t.call.Lease.Endpoint()
	t.decision = t.call.Decision
	s.begin(v, g.machineOf(e))
	s.after(0, arrives, func() {
		if v.ends == 0 {
			t.call.Begin(e, s.clock())
		}
	})
}

// firstToken, over and hungUp tell the call what the transport would.
func (g *gateway) firstToken(v *visit) {
	if t := v.turn(); t.call.Stream {
		g.tokens(v)
		t.call.SawFirstToken(g.sim.clock())
	}
}

func (g *gateway) tokens(v *visit) {
	if c := v.turn().call; c.Stream {
		c.TokenEvents, c.LastToken = v.tokens, origin.Add(v.token)
	}
}

func (g *gateway) over(v *visit) {
	c, now := v.turn().call, g.sim.clock()
	g.tokens(v)
	c.PromptTokens, c.CachedTokens, c.OutputTokens = v.input, v.cached, v.tokens
	if !c.Stream {
		c.SawWhole(now)
	}
	c.EndAttempt(now, llmlb.Served)
	g.settle(v)
}

func (g *gateway) hungUp(v *visit) {
	if v.tokens > 0 {
		g.tokens(v)
	}
	v.turn().call.EndAttempt(g.sim.clock(), llmlb.ClientGone)
	g.settle(v)
}

// scraped takes in what the health checks would read.
func (g *gateway) scraped(m *machine, p page) {
	s := llmlb.NoSignals(g.sim.clock())
	s.Engine = "vllm"
	s.Running, s.Waiting = float64(p.Running), float64(p.Waiting)
	s.KVUsage, s.KVUsageMax = p.KVUsage(), p.KVUsage()
	s.KVCapacity = float64(p.TotalBlocks * m.engine.Config().BlockSize)
	s.PromptTokens, s.CachedTokens = float64(p.prompt), float64(p.cached)
	s.GenerationTokens = float64(p.GeneratedTokens)
	s.TTFTSum, s.TTFTCount = p.ttft, float64(p.answers)
	s.ProcessStart = float64(origin.Unix())
	e := g.endpoints[m.number]
	if g.tell == nil || g.tell(m, &s) {
		e.ObserveSignals(s)
	} else {
		e.ObserveScrapeError(s.At, "telling nothing")
	}
}
