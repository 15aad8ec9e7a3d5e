package selection

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// The cost of an endpoint for a Call, in seconds:
//
//	ttft = floor + (P + I − H) / speed + slotWait × waiting
//	cost = ttft + running × (stall × (I − H) / speed + crowd × output)
//
// P is the prompt tokens that stand before the Call, I its own, H those of
// them that the endpoint's cache holds; waiting and running are requests; output
// is the tokens it is expected to generate.
//
// The first line is what the Call itself waits for its first token. The second
// is what it does to others: its prefill stalls every sequence in the batch,
// and then, token by token, it makes each step a little longer for all of them,
// as they do for it. Both are weighed far below their plain sum, because a
// stream that slows by a few per cent hurts less than one that has not begun.
const (
	// slotWait is the wait for a place in a full batch, per request ahead: a
	// batch of 256 sequences, each 256 tokens of 30 ms long, frees one every
	// 30 ms. Only engines with a queue have requests waiting.
	slotWait = 0.030

	// stall is the weight of a second by which a prefill holds up one running
	// sequence.
	stall = 0.02

	// crowd is the weight of one more sequence in the batch, per running
	// sequence and output token. A step grows by some 80 µs with a sequence of
	// a thousand tokens; a quarter of that counts.
	crowd = 20e-6

	// nearTie is how close two costs must be for other things to decide. No
	// prediction here is better than that.
	nearTie = 0.03
)

// rate is how fast an endpoint computes prompts.
type rate struct {
	speed float64 // prompt tokens a second
	floor float64 // seconds to the first token of an empty prompt
}

// priorRate holds until an endpoint's own speed is learned.
var priorRate = rate{speed: 5000, floor: 0.050}

// rates returns the endpoint's rate: the seat for learned ones.
func rates(*llmlb.Endpoint) rate { return priorRate }

// score predicts the time to first token and the cost of all seats left.
func (ch *choice) score() {
	output := float64(ch.call.ExpectedOutput())
	for _, s := range ch.left {
		r := rates(s.endpoint)
		own := float64(ch.uncached(s)) / r.speed
		s.ttft = r.floor + s.prefill/r.speed + own + slotWait*s.waiting
		s.cost = s.ttft + s.running*(stall*own+crowd*output)
	}
}

// least returns the cheapest seat. Among those within a few per cent of it the
// longest match wins, then the fewest own calls, then the one that least
// recently took a cold prefix, when the Call is cold. What remains equal is
// decided by the Call's key, so that a prefix with two homes stays at one while
// nothing else speaks; a Call without one is thrown anywhere.
func (ch *choice) least(seats []*seat, cold bool) *seat {
	cheapest := seats[0].cost
	for _, s := range seats[1:] {
		cheapest = min(cheapest, s.cost)
	}
	var won *seat
	for _, s := range seats {
		if s.cost <= cheapest*(1+nearTie) && (won == nil || ch.before(s, won, cold)) {
			won = s
		}
	}
	return won
}

// before reports whether s wins over t at nearly equal cost.
func (ch *choice) before(s, t *seat, cold bool) bool {
	if s.matched != t.matched {
		return s.matched > t.matched
	}
	if s.own != t.own {
		return s.own < t.own
	}
	if cold && s.endpoint.ColdTurn() != t.endpoint.ColdTurn() {
		return s.endpoint.ColdTurn() < t.endpoint.ColdTurn()
	}
	return ch.lot(s) > ch.lot(t)
}

// lot is what decides when nothing else does.
func (ch *choice) lot(s *seat) uint64 {
	key := ch.call.Key
	if key == 0 {
		key = ch.random
	}
	return rendezvous(key, s.endpoint)
}
