package virtual

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// origin is what the clock says when virtual time begins.
var origin = time.Unix(1_800_000_000, 0)

// sim is a pool of simulated servers and those who use it. A seed and a plan give
// the same run on every machine.
type sim struct {
	timeline
	seed     uint64
	rng      *rand.Rand
	machines []*machine
	visits   []*visit // in the order of their arrival; an id is a place in it
	ended    int
	overhead time.Duration // of an engine's API server
	interval time.Duration // between two scrapes of one server by one gateway
	lag      time.Duration // from the moment whose numbers a scrape tells to its end
}

// machine is one simulated server of the pool.
type machine struct {
	*replica
	sim      *sim
	number   int
	open     int // requests sent there by a gateway, and not ended
	coming   int // prompt tokens of those that have not reached its engine
	counters counters

	strangers uint64 // requests that came from elsewhere
}

// counters are what the server's metrics tell besides its engine's state.
type counters struct {
	prompt, cached int64
	ttft           float64 // sum, in seconds
	answers        int64   // first tokens
}

// visit is one request from arrival to last token, and what became of it.
type visit struct {
	id      uint64
	router  router
	content content // nil once it was sent
	machine *machine
	guest   *guest // whom it comes from; nil where nobody asks
	of      any    // what its router knows of it

	input, output      int
	cached             int // prompt tokens found in the engine's cache
	tokens             int // generated so far
	preemptions        int
	arrived, placed    time.Duration
	first, token, last time.Duration
	ends               int
	refused, gone      bool

	then func(*visit) // when it has ended
}

// computed is the prefill work that the request was.
func (v *visit) computed() int { return v.input - v.cached }

// router is a gateway, as requests and servers see it.
type router interface {
	// arrive gives the request its place with sim.begin, now or later, or ends it
	// with sim.refuse.
	arrive(v *visit)

	// leave takes a request out that has no place yet.
	leave(v *visit)

	// firstToken, over and hungUp tell of one that had.
	firstToken(v *visit)
	over(v *visit)
	hungUp(v *visit)

	// scraped tells what the server's metrics said at a moment, some time later.
	scraped(m *machine, p page)
}

// page is what a server's metrics say.
type page struct {
	at time.Duration
	engine.Stats
	counters
}

func newSim(seed uint64, engines ...engine.Config) (*sim, error) {
	s := &sim{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x11b)), overhead: engine.APIOverhead, interval: time.Second}
	for i, cfg := range engines {
		m := &machine{sim: s, number: i}
		r, err := newReplica(&s.timeline, cfg, m.token)
		if err != nil {
			return nil, fmt.Errorf("making server %d: %w", i+1, err)
		}
		m.replica = r
		s.machines = append(s.machines, m)
	}
	return s, nil
}

// clock is the present moment as gateways see it.
func (s *sim) clock() time.Time { return origin.Add(s.now) }

// watch has the gateway scrape all servers from now on, each at moments of its
// own.
func (s *sim) watch(r router) {
	for _, m := range s.machines {
		phase := time.Duration(s.rng.Int64N(int64(s.interval)))
		var scrape func()
		scrape = func() {
			p := page{at: s.now, Stats: m.engine.Stats(), counters: m.counters}
			if s.lag == 0 {
				r.scraped(m, p)
			} else {
				s.after(s.lag, scrapes, func() { r.scraped(m, p) })
			}
			s.after(s.interval, scrapes, scrape)
		}
		s.after(phase, scrapes, scrape)
	}
}

// bring has a request arrive at a gateway.
func (s *sim) bring(r router, c content, input, output int, then func(*visit)) *visit {
	v := &visit{
		id: uint64(len(s.visits)), router: r, content: c, input: input, output: output,
		arrived: s.now, then: then,
	}
	s.visits = append(s.visits, v)
	return v
}

// begin sends the request to the server it has its place at: the engine's API
// server takes its time, and then the engine has it.
func (s *sim) begin(v *visit, m *machine) {
	v.machine, v.placed = m, s.now
	m.open++
	m.coming += v.input
	req := v.content.request(v.id, m.engine.Config().BlockSize)
	v.content = nil
	// Never at once: whoever gives the place holds a lock, and an engine that refuses
	// the request tells so.
	s.after(s.overhead, arrives, func() { s.enter(v, req) })
}

func (s *sim) enter(v *visit, req engine.Request) {
	m := v.machine
	m.coming -= v.input
	if v.ends > 0 {
		return // the client has left
	}
	if err := m.add(req); err != nil {
		// What never fits is answered with an error, as engines do.
		v.refused = true
		m.open--
		v.router.hungUp(v)
		s.end(v)
	}
}

// refuse ends a request that gets no place.
func (s *sim) refuse(v *visit) {
	v.refused, v.content = true, nil
	s.end(v)
}

// hangUp has the client leave, wherever the request is.
func (s *sim) hangUp(v *visit) {
	if v.ends > 0 {
		return
	}
	v.gone = true
	if v.machine == nil {
		v.router.leave(v)
	} else {
		v.machine.engine.Abort(v.id)
		v.machine.open--
		v.router.hungUp(v)
	}
	s.end(v)
}

func (s *sim) end(v *visit) {
	v.last = s.now
	v.ends++
	s.ended++
	if v.then != nil {
		v.then(v)
	}
}

// elsewhere gives the machine work that comes from nobody here: gateways know of
// it only by what scrapes tell.
func (m *machine) elsewhere(c content) error {
	m.strangers++
	return m.add(c.request(m.strangers|stranger, m.engine.Config().BlockSize))
}

// stranger marks the ids of requests that came from elsewhere.
const stranger = 1 << 63

// token takes in one token of an answer.
func (m *machine) token(e engine.Event) {
	if e.ID >= stranger {
		return
	}
	s := m.sim
	v := s.visits[e.ID]
	v.tokens++
	v.token = s.now
	if e.First {
		v.first, v.cached = s.now, e.Cached
		c := &m.counters
		c.prompt += int64(v.input)
		c.cached += int64(v.cached)
		c.ttft += (v.first - v.placed).Seconds()
		c.answers++
		v.router.firstToken(v)
	}
	if e.Finished {
		v.preemptions = e.Preemptions
		m.open--
		v.router.over(v)
		s.end(v)
	}
}
