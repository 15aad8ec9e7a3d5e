package virtual

import "math/rand/v2"

// rival is a gateway that follows a Strategy. It holds nothing back, and keeps for
// the Strategy what such gateways keep: counts of its own requests, the prompts it
// has sent, and the last scrape.
type rival struct {
	sim      *sim
	strategy Strategy
	follower Follower // the strategy, if it is one
	oracle   bool
	rng      *rand.Rand
	view     View
	known    []known
	perAsk   int // pieces of one prompt that are looked at; 0 is all
}

// known is what the rival keeps of one server.
type known struct {
	server Server
	sent   *prefixes
	coming int // requests that are on their way there
	found  int // tokens of theirs that it will find in its cache
}

// errand is what a rival knows of a request.
type errand struct {
	Ask
	input int // tokens not believed cached
}

func newRival(s *sim, seed uint64, strategy Strategy, gateways, block int, oracle bool) *rival {
	r := &rival{sim: s, strategy: strategy, oracle: oracle, rng: rand.New(rand.NewPCG(seed, 0x71fa1))}
	r.follower, _ = strategy.(Follower)
	perServer, perPrompt := 0, 0
	if sized, ok := strategy.(Sized); ok {
		perServer, perPrompt = sized.Remembers()
	}
	block = max(1, block)
	if perPrompt > 0 {
		r.perAsk = max(1, perPrompt/block)
	}
	for _, m := range s.machines {
		tokens := perServer
		if tokens == 0 {
			tokens = m.engine.Config().KVTokens
		}
		k := known{sent: newPrefixes(tokens / block)}
		k.server = Server{Profile: s.machines[0].engine.Config(), Waiting: -1, Running: -1, KVUsage: -1}
		if oracle {
			k.server.Profile = m.engine.Config()
		}
		r.known = append(r.known, k)
	}
	r.view = View{Rand: r.rng, Servers: make([]Server, len(s.machines)), Gateways: gateways, Oracle: oracle}
	return r
}

func (r *rival) arrive(v *visit) {
	x := &errand{Ask: Ask{ID: v.id, Input: v.input, Output: v.output, Key: scramble(^v.id)}}
	ids, block := v.content.pieces()
	if block > 0 {
		x.Pieces, x.Block = ids[:min(len(ids), v.input/block)], block
	}
	if key := v.content.key(); key != 0 {
		x.Key = scramble(key)
	}
	v.of = x
	ids = x.Pieces
	if r.perAsk > 0 {
		ids = ids[:min(len(ids), r.perAsk)]
	}
	r.view.Now, r.view.Ask = r.sim.now, &x.Ask
	if r.oracle {
		r.lookOnTheWay()
	}
	var blocks []uint64
	size := 0 // of a block
	for i := range r.known {
		s := &r.view.Servers[i]
		*s = r.known[i].server
		if r.oracle {
			if n := r.sim.machines[i].engine.Config().BlockSize; n != size {
				size = n
				blocks = v.content.request(v.id, n).Blocks
			}
			r.truth(s, i, blocks, v.input)
		} else {
			s.Match = min(r.known[i].sent.match(ids)*x.Block, v.input-1)
		}
	}
	n := r.strategy.Pick(&r.view)
	won := &r.view.Servers[n]
	x.Match = won.Match
	x.input = v.input - won.Match
	k := &r.known[n]
	k.sent.use(ids)
	k.server.Open++
	k.server.Prefilling++
	k.server.Pending += x.input
	if r.follower != nil {
		r.follower.Placed(r.sim.now, &x.Ask, n)
	}
	r.sim.begin(v, r.sim.machines[n])
}

// truth fills in what is so at this moment. What is on its way through the engine's
// API server counts too.
func (r *rival) truth(s *Server, server int, blocks []uint64, input int) {
	m, k := r.sim.machines[server], &r.known[server]
	e := m.engine
	st := e.Stats()
	s.Waiting, s.Running, s.KVUsage, s.Scraped = st.Waiting+k.coming, st.Running, st.KVUsage(), r.sim.now
	s.Match = min(e.Match(blocks), input-1)
	s.Open = m.open
	s.Prefilling = m.open - e.Decoding()
	s.Pending = e.Pending() + m.coming - k.found
	s.Context = st.ReferencedBlocks * e.Config().BlockSize
}

// lookOnTheWay sums up the requests in the engines' API servers, and what they will
// find: the machines count whole prompts. They are among those that came last,
// because rivals hold nothing back.
func (r *rival) lookOnTheWay() {
	for i := range r.known {
		r.known[i].coming, r.known[i].found = 0, 0
	}
	all := r.sim.visits
	for i := len(all) - 1; i >= 0 && all[i].arrived+r.sim.overhead > r.sim.now; i-- {
		if x, ok := all[i].of.(*errand); ok && all[i].machine != nil && all[i].ends == 0 {
			k := &r.known[all[i].machine.number]
			k.coming++
			k.found += x.Match
		}
	}
}

func (r *rival) leave(*visit) {}

func (r *rival) firstToken(v *visit) {
	x, k := v.of.(*errand), &r.known[v.machine.number].server
	k.Prefilling--
	k.Pending -= x.input
	k.Context += v.input
	if r.follower != nil {
		r.follower.FirstToken(r.sim.now, &x.Ask, v.machine.number)
	}
}

func (r *rival) over(v *visit) {
	x, k := v.of.(*errand), &r.known[v.machine.number].server
	k.Open--
	if v.tokens == 0 {
		k.Prefilling--
		k.Pending -= x.input
	} else {
		k.Context -= v.input
	}
	if r.follower != nil {
		if v.tokens == 0 {
			r.follower.FirstToken(r.sim.now, &x.Ask, v.machine.number)
		}
		r.follower.Ended(r.sim.now, &x.Ask, v.machine.number)
	}
}

func (r *rival) hungUp(v *visit) { r.over(v) }

func (r *rival) scraped(m *machine, p page) {
	s := &r.known[m.number].server
	s.Waiting, s.Running, s.KVUsage, s.Scraped = p.Waiting, p.Running, p.KVUsage(), p.at
}
