package selection

// A Call that no endpoint holds a useful prefix for goes to the home of its
// conversation, by rendezvous hashing, so that gateways which know nothing of
// each other send the turns of one conversation to one place. The home keeps it
// while it has room by our own count, and is not clearly worse than the best.
const (
	// homeFactor and homeSlack bound the home's own calls by those of the mean
	// endpoint.
	homeFactor, homeSlack = 1.1, 1

	// leastFactor and leastSlack bound them by those of the emptiest one, with
	// some of the mean: a burst of new conversations spreads as evenly as
	// calls do, and a crowded pool does not move its conversations about for
	// an ordinary difference.
	leastFactor, leastSlack = 0.2, 2

	// worseFactor and worseSlack (seconds) say what is clearly worse.
	worseFactor, worseSlack = 1.25, 0.050
)

// cold picks for a Call without a useful match: its home, or by cost.
func (ch *choice) cold() *seat {
	if home := ch.home(); home != nil {
		return home
	}
	return ch.least(ch.left, true)
}

// home returns the seat that the Call's key falls on, or nil when that one
// should not have it.
func (ch *choice) home() *seat {
	home := ch.homeSeat()
	if home == nil {
		return nil
	}
	first := ch.left[0]
	total, weights, fewest, cheapest := 0.0, 0.0, first.load(), first.cost
	for _, s := range ch.left {
		total += float64(s.own)
		weights += s.weight()
		fewest = min(fewest, s.load())
		cheapest = min(cheapest, s.cost)
	}
	mean, own := total/weights, home.load()
	if own > homeFactor*mean+homeSlack/home.weight() ||
		own >= fewest+leastFactor*mean+leastSlack/home.weight() ||
		home.cost > worseFactor*cheapest+worseSlack {
		return nil
	}
	return home
}

// load is our own calls at the seat, by its weight.
func (s *seat) load() float64 { return float64(s.own) / s.weight() }
