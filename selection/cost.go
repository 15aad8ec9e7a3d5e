package selection

import (
	"math"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The cost of an endpoint for a Call, in seconds:
//
//	ttft = floor + (P + E) / speed + slotWait × waiting + delay
//	cost = ttft + work × own + (begun × beginning + stall × running × own) × own + crowd × (C + answer × running)
//	own  = E / speed
//
// P is the prefill that stands before the Call, and E that of its own prompt, as
// far as the endpoint's cache does not hold it. Both are effort (see llmlb.Work):
// tokens, with what attention adds for long prompts. Waiting and running are
// requests, and beginning those whose own prompt stands before the Call's; C is the
// prompt tokens of the calls open there; delay is what loading its adapter would
// take. Speed and floor are those that the endpoint has shown.
//
// The first line is what the Call itself waits for its first token. The rest is
// what it does to others, and they to it. All forms and weights were chosen by
// replaying traces: docs/policy.md.
const (
	// work is the weight of the Call's own prefill beyond what the Call waits for
	// it: for as long, the endpoint does nothing for those that come after.
	work = 0.5

	// stall is the weight of the square of the seconds for which a prefill holds up
	// one running sequence. A tenth of a second nobody sees. Five of them are more
	// than many answers take in all, so that long prompts should go where few
	// answers are being written.
	stall = 0.005

	// begun is the weight of the seconds for which a prefill holds up a request whose
	// own prompt is computed just before: its answer will have begun by then, and
	// have all of it ahead. Of an answer being written most is over, or it is a long
	// one, which bears more. So a short answer suffers most by what comes right
	// behind it, and by its whole length rather than the square.
	begun = 0.1

	// crowd is the seconds that a token of the open calls' prompts counts for. Every
	// step reads them all again, some 50 ns each, and a stream that slows by a few per
	// cent hurts less than one that has not begun. A running sequence counts as
	// `answer` tokens more: it has its answer too, and however short prompts are, they
	// should spread.
	crowd, answer = 1e-6, 6000

	// nearTie and nearSlack (seconds) are how close two costs must be for other
	// things to decide. No prediction here is better than that.
	nearTie, nearSlack = 0.03, 0.008
)

// learned fills in how fast each seat's endpoint is. What an endpoint has not
// shown, or not of late, is taken from the mean of those that have: a new server
// in a pool of fast ones is more likely fast than of a speed we once assumed.
func (ch *choice) learned() {
	speed, floor, n := 0.0, 0.0, 0.0
	for _, s := range ch.left {
		s.rate, s.fresh = s.brief().Rate(&ch.asking)
		speed += s.fresh * s.rate.Speed
		floor += s.fresh * s.rate.Floor
		n += s.fresh
	}
	if n > 0 {
		speed, floor = speed/n, floor/n
	} else {
		speed, floor = llmlb.PriorSpeed, llmlb.PriorFloor
	}
	for _, s := range ch.left {
		s.rate.Speed = s.member.Share() * (s.fresh*s.rate.Speed + (1-s.fresh)*speed)
		s.rate.Floor = s.fresh*s.rate.Floor + (1-s.fresh)*floor
	}
}

// score predicts the time to first token and the cost of all seats left.
func (ch *choice) score() {
	for _, s := range ch.left {
		effort := ch.effort(s)
		s.delay = s.brief().LoadDelay(ch.model, ch.now)
		s.ttft = s.rate.Predict(s.prefill, effort, s.waiting) + s.delay
		ttft, pace := s.ttft, s.rate
		if s.share < 1 { // compared as if it were slower; what is predicted is what it takes
			pace.Speed *= s.share
			ttft = pace.Predict(s.prefill, effort, s.waiting) + s.delay
		}
		own := effort / pace.Speed
		burden := (begun*s.beginning+stall*s.running*own)*own + crowd*(s.context+answer*s.running)
		s.wait = ttft - pace.Floor - own + burden
		s.cost = ttft + work*own + burden
	}
}

// weight is how much faster than seen the endpoint counts: by what the operator
// says, and less while it gets less than its share.
func (s *seat) weight() float64 { return s.member.Share() * s.share }

// least returns the cheapest seat. Among those within a few per cent of it the
// longest match wins; for a cold Call then the fewest own cold calls; then the
// fewest own calls; and then, when it is cold, the one that least recently took a
// cold prefix. What remains equal is decided by the Call's key, so that a prefix
// with two homes stays at one while nothing else speaks; a Call without one is
// thrown anywhere.
func (ch *choice) least(seats []*seat, cold bool) *seat {
	return ch.leastBy(seats, cold, func(s *seat) float64 { return s.cost })
}

func (ch *choice) leastBy(seats []*seat, cold bool, price func(*seat) float64) *seat {
	prices := ch.prices[:0]
	cheapest := price(seats[0])
	for _, s := range seats {
		prices = append(prices, price(s))
		cheapest = min(cheapest, prices[len(prices)-1])
	}
	ch.prices = prices
	near := cheapest + nearTie*math.Abs(cheapest) + nearSlack
	var won *seat
	for i, s := range seats {
		if prices[i] <= near && (won == nil || ch.before(s, won, cold)) {
			won = s
		}
	}
	if won == nil {
		return seats[0] // prices that cannot be compared
	}
	return won
}

// before reports whether s wins over t at nearly equal cost.
func (ch *choice) before(s, t *seat, cold bool) bool {
	if s.matched != t.matched {
		return s.matched > t.matched
	}
	if cold && s.cold != t.cold {
		return s.coldLoad() < t.coldLoad()
	}
	if s.own != t.own {
		return s.load() < t.load()
	}
	if a, b := s.endpoint.ColdTurn(), t.endpoint.ColdTurn(); a != b && (cold || s.own > 0) {
		return (a < b) == cold
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
