package status

import (
	"maps"
	"math"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const (
	// step is the distance of two points of the history, steps how many are kept:
	// 15 minutes.
	step  = 5 * time.Second
	steps = 180

	// maxHistories bounds for how many endpoints of the process a history is kept.
	maxHistories = 2000
)

// The series of an endpoint, as they are called on the wire.
const (
	seriesTTFT   = iota // latest time to first token, ms
	seriesQueue         // requests that wait in the engine
	seriesTokens        // tokens in flight, own: prompts to be computed and expected output
	seriesKV            // share of KV memory in use
	seriesSpeed         // tokens generated per second
	endpointSeries
)

// The further series of a pool. The first five of a pool are of its endpoints
// together: the median of first tokens, the sum of what waits in engines, and so on.
const (
	seriesSlow  = endpointSeries + iota // 95 % of first tokens came sooner than this, ms
	seriesLine                          // requests that wait in the gateway
	seriesMaxKV                         // the highest share of KV memory in use
	poolSeries
)

var seriesNames = [poolSeries]string{"ttft", "queue", "tokens", "kv", "speed", "slow", "line", "kv_max"}

// history is what was seen in the last 15 minutes: rings of numbers, one place for
// each five seconds of the clock, so that a sleep of the machine is a gap and not a
// shift. What is not known is NaN.
type history struct {
	last  int64 // the newest step, 0 before the first
	pools map[string]*poolHistory
	kept  int // endpoints with a history
}

type poolHistory struct {
	ring      [poolSeries]ring
	endpoints map[string]*endpointHistory // by address

	// decided counts choices by reason in each step, refused the gateway's own
	// refusals.
	decided [steps][maxReasons]uint32
	refused [steps]uint32

	before        map[string]*counts
	refusedBefore uint64
	began         bool
}

type endpointHistory struct{ ring [endpointSeries]ring }

// ring has float32s because nobody reads more digits off a plot: 2,000 endpoints
// take 7.2 MB so.
type ring [steps]float32

func stepOf(t time.Time) int64 { return t.UnixNano() / int64(step) }

// due reports whether the clock has come to another step.
func (h *history) due(now time.Time) bool { return stepOf(now) != h.last }

// take adds a point for each pool and endpoint. Those that are gone are forgotten.
func (h *history) take(now time.Time, seen []sight) {
	at, from := stepOf(now), h.last+1
	if h.last == 0 || at < h.last || at-h.last > steps { // the first, or a clock that was set
		from = at - steps + 1
	}
	before := h.pools
	h.pools, h.last, h.kept = make(map[string]*poolHistory, len(seen)), at, 0
	for i := range seen {
		s := &seen[i]
		p := before[s.Pool]
		if p == nil {
			p = newPoolHistory()
		}
		h.pools[s.Pool] = p
		p.clear(from, at)
		p.take(at, s, maxHistories-h.kept)
		h.kept += len(p.endpoints)
	}
}

func newPoolHistory() *poolHistory {
	p := &poolHistory{endpoints: make(map[string]*endpointHistory)}
	for i := range p.ring {
		p.ring[i].blank()
	}
	return p
}

func (r *ring) blank() {
	for i := range r {
		r[i] = float32(math.NaN())
	}
}

// clear blanks the steps from one to the other, both included: they held what was
// seen 15 minutes before.
func (p *poolHistory) clear(from, to int64) {
	for n := from; n <= to; n++ {
		i := n % steps
		for k := range p.ring {
			p.ring[k][i] = float32(math.NaN())
		}
		for _, e := range p.endpoints {
			for k := range e.ring {
				e.ring[k][i] = float32(math.NaN())
			}
		}
		p.decided[i], p.refused[i] = [maxReasons]uint32{}, 0
	}
}

// take fills in the step, with at most room endpoints.
func (p *poolHistory) take(at int64, s *sight, room int) {
	i := at % steps
	maps.DeleteFunc(p.endpoints, func(address string, _ *endpointHistory) bool { return s.counts[address] == nil })
	for k := range s.Endpoints {
		row := &s.Endpoints[k]
		e := p.endpoints[row.Address]
		if e == nil {
			if len(p.endpoints) >= room {
				continue
			}
			e = new(endpointHistory)
			for n := range e.ring {
				e.ring[n].blank()
			}
			p.endpoints[row.Address] = e
		}
		for n, x := range numbersOf(row) {
			e.ring[n][i] = float32(x)
		}
	}
	total := sum(s)
	first := p.count(i, s)
	total[seriesTTFT], total[seriesSlow] = quantile(first, 0.5), quantile(first, 0.95)
	for n, x := range total {
		p.ring[n][i] = float32(x)
	}
}

// count takes in how often what was done since the step before, and returns the
// first tokens of that time by how long they took.
func (p *poolHistory) count(i int64, s *sight) (first []uint64) {
	first = make([]uint64, len(llmlb.TTFTBounds)+1)
	for address, now := range s.counts {
		was := p.before[address]
		if was == nil || was.endpoint != now.endpoint {
			if !p.began {
				continue // what happened before anybody looked
			}
			was = &counts{ttft: make([]uint64, len(now.ttft))}
		}
		for k := range now.decisions {
			p.decided[i][k] += uint32(now.decisions[k] - was.decisions[k])
		}
		for k := range now.ttft {
			first[k] += now.ttft[k] - was.ttft[k]
		}
	}
	refused := uint64(0)
	for _, n := range s.Refusals {
		refused += n
	}
	if p.began && refused >= p.refusedBefore {
		p.refused[i] = uint32(refused - p.refusedBefore)
	}
	p.before, p.refusedBefore, p.began = s.counts, refused, true
	return first
}

// recent adds up the steps: choices by reason, and refusals.
func (p *poolHistory) recent() (decided map[string]uint64, refused uint64) {
	decided = make(map[string]uint64)
	for i := range steps {
		for k, r := range reasons {
			if n := p.decided[i][k]; n > 0 {
				decided[r.String()] += uint64(n)
			}
		}
		refused += uint64(p.refused[i])
	}
	return decided, refused
}
