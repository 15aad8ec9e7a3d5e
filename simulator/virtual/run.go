package virtual

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// Config says what is simulated.
type Config struct {
	// Engines are the servers. Those that name one Store have it together.
	Engines []engine.Config

	// Strategy is the name of one of this project's own, which its own gateways
	// follow, with queue and all. Empty where Rule is set.
	Strategy string

	// Rule makes the rule that a gateway follows instead, one for each gateway.
	Rule func() Strategy

	// Oracle shows a Rule what is true instead of what a gateway would know.
	Oracle bool

	// Gateways is how many there are, which know nothing of each other; each
	// request comes to one of them at random. Default: 1.
	Gateways int

	// Scrape is the time between two scrapes, and Lag how old their numbers are
	// when they have been read. Default: 1 s, and not old.
	Scrape, Lag time.Duration

	// Overhead is what a server's HTTP front adds to each request.
	Overhead time.Duration

	// MaxWait is how long requests wait for a place before they are refused, in
	// gateways that have a queue. 0 is as long as it takes.
	MaxWait time.Duration

	// Seed is for everything that is left to chance.
	Seed uint64

	// Adjust changes the settings of this project's gateways, if set.
	Adjust func(*llmlb.Settings)

	// Ended is called for each request that has ended, if set, and ends the run
	// when it says false.
	Ended func(*Record) bool

	// Sample is the time between two looks at all servers' load. 0 is none.
	Sample time.Duration
}

// Record is what became of one request.
type Record struct {
	// Arrived is when it came, Placed when a gateway sent it on, First when its
	// first token came and Last when it ended. What did not happen is 0.
	Arrived, Placed, First, Last time.Duration

	// Input is the length of its prompt, Cached how much of it the server found in
	// its cache, Output how many tokens it was given.
	Input, Cached, Output int

	// Server and Gateway are those that had it. Server is -1 for none.
	Server, Gateway int

	// Preemptions is how often the server threw it out for want of memory.
	Preemptions int

	// Refused says that it got no answer: it waited too long, or is longer than a
	// server's memory.
	Refused bool
}

// TTFT is the time to first token.
func (r *Record) TTFT() time.Duration { return r.First - r.Arrived }

// TPOT is the time per token after the first, 0 where there is one token alone.
func (r *Record) TPOT() time.Duration {
	if r.Output < 2 {
		return 0
	}
	return (r.Last - r.First) / time.Duration(r.Output-1)
}

// Result is a run.
type Result struct {
	// Records are in the order of the trace. A request that never arrived, because
	// the run was ended, has no Last.
	Records []Record

	// Servers is what each has done.
	Servers []Done

	// Samples are looks at all servers, in order.
	Samples []Sample

	// Span is the time at which the last request ended.
	Span time.Duration
}

// Done is what a server has done.
type Done struct {
	engine.Stats
	Worked time.Duration // spent in steps
}

// Sample is the servers' load at a moment.
type Sample struct {
	At      time.Duration
	Waiting []int     // requests, by server
	Running []int     // requests, by server
	Pending []int     // prompt tokens still to be computed, by server
	KVUsage []float64 // 0 to 1, by server
	Held    int       // requests in gateways' queues
}

// forever is the time that nobody waits.
const forever = 1000 * time.Hour

// Run replays the trace.
func Run(cfg Config, t *trace.Trace) (*Result, error) {
	switch {
	case len(cfg.Engines) == 0:
		return nil, errors.New("simulating a pool: it has no servers")
	case (cfg.Strategy == "") == (cfg.Rule == nil):
		return nil, errors.New("simulating a pool: give a strategy's name or a rule, and not both")
	}
	s, err := newSim(cfg.Seed, cfg.Engines...)
	if err != nil {
		return nil, err
	}
	s.overhead, s.lag = cfg.Overhead, cfg.Lag
	if cfg.Scrape > 0 {
		s.interval = cfg.Scrape
	}
	p := &player{sim: s, trace: t, guest: &guest{class: &queue.Class{Name: "interactive", MaxWait: forever}}}
	p.result = &Result{Records: make([]Record, len(t.Requests))}
	if cfg.MaxWait > 0 {
		p.guest.class.MaxWait = cfg.MaxWait
	}
	for i := range max(1, cfg.Gateways) {
		if err := p.open(cfg, i); err != nil {
			return nil, err
		}
	}
	p.ended = cfg.Ended
	p.play(cfg)
	return p.result, nil
}

// player replays a trace.
type player struct {
	sim      *sim
	trace    *trace.Trace
	gateways []router
	guest    *guest
	choose   *rand.Rand // which gateway a request comes to
	follows  [][]int    // who waits for a request's end
	result   *Result
	ended    func(*Record) bool
	stopped  bool
	left     int
}

// open makes one more gateway.
func (p *player) open(cfg Config, number int) error {
	s := p.sim
	if cfg.Rule != nil {
		r := newRival(s, cfg.Seed+uint64(number)<<32, cfg.Rule(), max(1, cfg.Gateways), p.trace.Block, cfg.Oracle)
		p.gateways = append(p.gateways, r)
		s.watch(r)
		return nil
	}
	g, err := newGateway(s, fmt.Sprintf("gateway-%d", number+1), scramble(cfg.Seed), cfg.Strategy)
	if err != nil {
		return fmt.Errorf("opening gateway %d: %w", number+1, err)
	}
	if cfg.Adjust != nil {
		cfg.Adjust(g.settings)
	}
	if cfg.MaxWait == 0 {
		g.bounds = queue.Bounds{Calls: 1 << 30}
	}
	g.queued()
	p.gateways = append(p.gateways, g)
	s.watch(g)
	return nil
}

// play has all requests arrive, and waits for the last to end.
func (p *player) play(cfg Config) {
	s := p.sim
	p.choose = rand.New(rand.NewPCG(cfg.Seed, 0x6a7e))
	p.left = len(p.trace.Requests)
	p.follows = make([][]int, len(p.trace.Requests))
	var first []int
	for i := range p.trace.Requests {
		if n := p.trace.Requests[i].Follows; n > 0 && n <= i {
			p.follows[i-n] = append(p.follows[i-n], i)
		} else {
			first = append(first, i)
		}
	}
	// One plan at a time: the heap stays as small as the pool.
	var next func()
	next = func() {
		i := first[0]
		first = first[1:]
		if len(first) > 0 {
			s.after(p.trace.Requests[first[0]].At-p.trace.Requests[i].At, arrives, next)
		}
		p.bring(i)
	}
	if len(first) > 0 {
		s.after(p.trace.Requests[first[0]].At, arrives, next)
	}
	if cfg.Sample > 0 {
		var look func()
		look = func() {
			p.look()
			s.after(cfg.Sample, scrapes, look)
		}
		s.after(0, scrapes, look)
	}
	s.run(func() bool { return p.left == 0 || p.stopped })
	p.result.Span = s.now
	for _, m := range s.machines {
		p.result.Servers = append(p.result.Servers, Done{Stats: m.engine.Stats(), Worked: m.worked})
	}
}

// bring has the trace's request arrive.
func (p *player) bring(i int) {
	r, n := &p.trace.Requests[i], 0
	if len(p.gateways) > 1 {
		n = p.choose.IntN(len(p.gateways))
	}
	v := p.sim.bring(p.gateways[n], row{r, p.trace.Block}, r.Input, r.Output, func(v *visit) { p.over(i, n, v) })
	if g, ok := p.gateways[n].(*gateway); ok {
		g.receive(v, p.guest)
	} else {
		v.router.arrive(v)
	}
}

// over writes down what became of it.
func (p *player) over(i, gateway int, v *visit) {
	r := &p.result.Records[i]
	*r = Record{
		Arrived: v.arrived, Placed: v.placed, First: v.first, Last: v.last,
		Input: v.input, Cached: v.cached, Output: v.tokens, Server: -1, Gateway: gateway,
		Preemptions: v.preemptions, Refused: v.refused,
	}
	if v.machine != nil {
		r.Server = v.machine.number
	}
	p.left--
	if p.ended != nil && !p.ended(r) {
		p.stopped = true
	}
	for _, j := range p.follows[i] {
		p.sim.after(p.trace.Requests[j].Think, arrives, func() { p.bring(j) })
	}
	v.of = nil
}

// look writes down how busy all are.
func (p *player) look() {
	x := Sample{At: p.sim.now}
	for _, m := range p.sim.machines {
		st := m.engine.Stats()
		x.Waiting = append(x.Waiting, st.Waiting)
		x.Running = append(x.Running, st.Running)
		x.Pending = append(x.Pending, m.engine.Pending()+m.coming)
		x.KVUsage = append(x.KVUsage, st.KVUsage())
	}
	for _, g := range p.gateways {
		if g, ok := g.(*gateway); ok {
			x.Held += g.queue.Len()
		}
	}
	p.result.Samples = append(p.result.Samples, x)
}
