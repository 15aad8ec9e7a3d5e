package selection

import (
	"math"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The home of a conversation is the endpoint on which its key falls by
// rendezvous hashing: gateways that share nothing but affinity_key find the same
// one. An endpoint of weight 2 is the home of twice as many conversations, and so
// is one that is twice as fast.

const (
	// homeSamples is how many first tokens each endpoint must have shown for
	// speeds to count in homes: they should not move about while one is learned
	// before the other.
	homeSamples = 15

	// homeUnequal is how many times as fast as the slowest the fastest must be.
	// Below it the servers are taken for equal, so that gateways which have
	// learned a little different speeds still agree.
	homeUnequal = 1.5

	// homeStep is the step in which speeds count where there are other gateways.
	// Servers that compute for others look slower than they are. One gateway sees that
	// of this server and another of that one, and of eight equal ones the slowest looks
	// 1.2 to 2.3 times as slow as the fastest.
	homeStep = 2.3

	// homeMost bounds a share by that of the mean endpoint, both ways.
	homeMost = 8
)

// findHome marks the home among the seats that are left. A Call without a key,
// which has no prompt, has none.
func (ch *choice) findHome() {
	if ch.call.Key == 0 {
		return
	}
	ch.atHome = nil
	ch.homeOf().home = true
}

// homeOf returns the Call's home among the seats that are left.
func (ch *choice) homeOf() *seat {
	if ch.atHome == nil {
		var most float64
		p := ch.homePaces()
		for _, s := range ch.left {
			if w := p.draw(rendezvous(ch.call.Key, s.endpoint), s); ch.atHome == nil || w > most {
				ch.atHome, most = s, w
			}
		}
	}
	return ch.atHome
}

// homePaces is what of the seats' speeds and weights counts in homes.
type homePaces struct {
	speeds  bool    // what was learned of speeds, in proportion
	steps   bool    // or in steps
	alike   bool    // nothing else tells the seats apart
	fastest float64 // without the operator's weight
	mean    float64 // with it
}

func (ch *choice) homePaces() homePaces {
	p := homePaces{speeds: true, alike: true}
	slowest, weight := math.Inf(1), ch.left[0].weight()
	for _, s := range ch.left {
		p.alike = p.alike && s.weight() == weight
		if p.speeds = p.speeds && s.rate.Samples >= homeSamples; p.speeds {
			plain := s.rate.Speed / s.member.Share()
			slowest, p.fastest = min(slowest, plain), max(p.fastest, plain)
		}
	}
	if p.speeds = p.speeds && p.fastest > homeUnequal*slowest; !p.speeds {
		return p
	}
	if ch.othersShare() > 0 {
		p.speeds, p.steps = false, p.fastest > homeStep*slowest
		return p
	}
	for _, s := range ch.left {
		p.mean += s.rate.Speed / float64(len(ch.left))
	}
	return p
}

// draw is the seat's, of which the highest has the Call.
func (p *homePaces) draw(hash uint64, s *seat) float64 {
	switch {
	case p.speeds:
		return drawn(hash, s.share*min(max(s.rate.Speed, p.mean/homeMost), p.mean*homeMost))
	case p.steps:
		share := s.weight()
		plain := max(s.rate.Speed/s.member.Share(), p.fastest/homeMost)
		for ; plain*homeStep < p.fastest; plain *= homeStep {
			share /= homeStep
		}
		return drawn(hash, share)
	case !p.alike:
		return drawn(hash, s.weight())
	}
	return float64(hash)
}

// drawn turns a hash into a draw that is the highest of all with a probability
// in proportion to the weight (Schindelhauer and Schomaker, "Weighted Distributed
// Hash Tables", 2005). With equal weights the order is that of the hashes.
func drawn(hash uint64, weight float64) float64 {
	u := (float64(hash>>11) + 0.5) / (1 << 53)
	return -weight / math.Log(u)
}

// view is the seat as scorers and explanations see it.
func (ch *choice) view(s *seat) llmlb.View {
	b := s.brief()
	return llmlb.View{
		Endpoint: s.endpoint, Member: s.member,
		Waiting: s.waiting, Running: s.running, PrefillTokens: s.prefill, OutputTokens: b.OutputTokens,
		KVUsage: b.Booked.KVUsage, KVCapacity: b.Booked.KVCapacity, Own: s.own, Blind: s.blind,
		Matched: s.matched, Best: ch.best,
		Predicted: s.ttft, RecentTTFT: b.Recent, ErrorRate: s.endpoint.ErrorRate(ch.now),
		Home: s.home,
	}
}
