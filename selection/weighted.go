package selection

import (
	"slices"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// nearScore is how close to the best score another must be for other things to
// decide. Scores say no more than that, and in a burst many are equal: all of
// it would go to whichever came first.
const nearScore = 0.03

// hear has every scorer give its opinion of every seat left. The score is their
// weighted mean, and the cost what is missing to a perfect one.
func (ch *choice) hear() {
	scorers := ch.settings.Scorers
	weights := 0.0
	for i := range scorers {
		weights += scorers[i].Weight
	}
	ch.said = slices.Grow(ch.said, len(ch.left)*len(scorers)) // behind those of an earlier pick
	for _, s := range ch.left {
		ch.scored = ch.view(s)
		sum := 0.0
		s.scored, s.parts = true, int32(len(ch.said))
		for i := range scorers {
			x := clamp(scorers[i].Scorer.Score(ch.call, &ch.scored))
			ch.said = append(ch.said, x)
			sum += scorers[i].Weight * x
		}
		s.cost = 1
		if weights > 0 {
			s.cost = 1 - sum/weights
		}
	}
}

// clamp keeps a scorer from having more say than its weight. NaN is 0.
func clamp(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}

// weighted picks the seat with the highest score. Affinity is what the scorers
// make of it: a warm seat is left whenever another scores higher.
func (ch *choice) weighted(warm int) (*seat, llmlb.Reason) {
	best := ch.left[0].cost
	for _, s := range ch.left[1:] {
		best = min(best, s.cost)
	}
	var won *seat
	for _, s := range ch.left {
		if s.cost <= best+nearScore && (won == nil || ch.rather(s, won, warm == 0)) {
			won = s
		}
	}
	switch {
	case won.warm:
		return won, llmlb.ReasonWarm
	case warm > 0:
		ch.behind = ch.cheapestWarm()
		return won, llmlb.ReasonSpillLoad
	}
	return won, llmlb.ReasonCold
}

// rather reports whether s wins over t at nearly equal scores: by the longer
// match, then, for a cold Call, the fewer own cold calls, then the fewer own calls
// for its weight. A cold Call goes to the home of its conversation while nothing
// runs, and then wherever a cold prefix was taken least recently. While calls run,
// a warm one goes where the newest cold prefix went: the next cold one wants
// another, and each kind spreads by itself.
func (ch *choice) rather(s, t *seat, cold bool) bool {
	if s.matched != t.matched {
		return s.matched > t.matched
	}
	if cold && s.cold != t.cold {
		return s.coldLoad() < t.coldLoad()
	}
	if s.load() != t.load() {
		return s.load() < t.load()
	}
	if cold && s.own == 0 && s.home != t.home {
		return s.home
	}
	if a, b := s.endpoint.ColdTurn(), t.endpoint.ColdTurn(); a != b && (cold || s.own > 0) {
		return (a < b) == cold
	}
	return ch.lot(s) > ch.lot(t)
}
