package selection

import (
	"math"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The home of a conversation is the endpoint on which its key falls by
// rendezvous hashing: gateways that share nothing but affinity_key find the same
// one. An endpoint of weight 2 is the home of twice as many conversations.

// findHome marks the home among the seats that are left. A Call without a key,
// which has no prompt, has none.
func (ch *choice) findHome() {
	key := ch.call.Key
	if key == 0 {
		return
	}
	alike := true
	for _, s := range ch.left {
		if s.weight() != ch.left[0].weight() {
			alike = false
			break
		}
	}
	var home *seat
	if alike {
		var most uint64
		for _, s := range ch.left {
			if w := rendezvous(key, s.endpoint); home == nil || w > most {
				home, most = s, w
			}
		}
	} else {
		var most float64
		for _, s := range ch.left {
			if w := drawn(rendezvous(key, s.endpoint), s.weight()); home == nil || w > most {
				home, most = s, w
			}
		}
	}
	home.home = true
}

// drawn turns a hash into a draw that is the highest of all with a probability
// in proportion to the weight (Schindelhauer and Schomaker, "Weighted Distributed
// Hash Tables", 2005). With equal weights the order is that of the hashes.
func drawn(hash uint64, weight float64) float64 {
	u := (float64(hash>>11) + 0.5) / (1 << 53)
	return -weight / math.Log(u)
}

// homeSeat returns the seat that the Call's key falls on, or nil.
func (ch *choice) homeSeat() *seat {
	for _, s := range ch.left {
		if s.home {
			return s
		}
	}
	return nil
}

// view is the seat as scorers and explanations see it.
func (ch *choice) view(s *seat) llmlb.View {
	return llmlb.View{
		Endpoint: s.endpoint, Member: s.member,
		Waiting: s.waiting, Running: s.running, PrefillTokens: s.prefill, OutputTokens: s.output,
		KVUsage: s.kv, KVCapacity: s.kvRoom, Own: s.own, Blind: s.blind,
		Matched: s.matched, Best: ch.best,
		Predicted: s.ttft, RecentTTFT: s.recent, ErrorRate: s.endpoint.ErrorRate(ch.now),
		Home: s.home,
	}
}
