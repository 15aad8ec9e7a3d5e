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

	// homeMost bounds a share by that of the mean endpoint, both ways.
	homeMost = 8
)

// findHome marks the home among the seats that are left. A Call without a key,
// which has no prompt, has none.
func (ch *choice) findHome() {
	if ch.call.Key == 0 {
		return
	}
	ch.homes = homes{}
	home, _ := ch.homesOf()
	home.home = true
}

// homes are two seats for a Call's key: the one on which it falls, and the one on
// which it would fall without that, nil where there is one alone.
type homes struct{ first, second *seat }

// homesOf returns the Call's homes among the seats that are left.
func (ch *choice) homesOf() (first, second *seat) {
	if ch.homes.first == nil {
		ch.homes.first, ch.homes.second = ch.findHomes()
	}
	return ch.homes.first, ch.homes.second
}

func (ch *choice) findHomes() (first, second *seat) {
	known, alike := true, true
	slowest, fastest := math.Inf(1), 0.0
	weight := ch.left[0].weight()
	for _, s := range ch.left {
		alike = alike && s.weight() == weight
		if known = known && s.rate.Samples >= homeSamples; known {
			plain := s.rate.Speed / s.member.Share()
			slowest, fastest = min(slowest, plain), max(fastest, plain)
		}
	}
	mean := 0.0
	if known = known && fastest > homeUnequal*slowest; known {
		for _, s := range ch.left {
			mean += s.rate.Speed / float64(len(ch.left))
		}
	}
	var most, next float64
	for _, s := range ch.left {
		share := 1.0
		switch {
		case known:
			share = s.share * min(max(s.rate.Speed, mean/homeMost), mean*homeMost)
		case !alike:
			share = s.weight()
		}
		hash := rendezvous(ch.call.Key, s.endpoint)
		w := float64(hash)
		if known || !alike {
			w = drawn(hash, share)
		}
		switch {
		case first == nil || w > most:
			second, next = first, most
			first, most = s, w
		case second == nil || w > next:
			second, next = s, w
		}
	}
	return first, second
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
