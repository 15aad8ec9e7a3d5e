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

// home returns the seat that the Call's key wants most, or nil when that one
// should not have it. A Call without a key, which has no prompt, has no home.
func (ch *choice) home() *seat {
	key := ch.call.Key
	if key == 0 {
		return nil
	}
	first := ch.left[0]
	home, want := first, rendezvous(key, first.endpoint)
	total, fewest, cheapest := first.own, first.own, first.cost
	for _, s := range ch.left[1:] {
		if w := rendezvous(key, s.endpoint); w > want {
			home, want = s, w
		}
		total += s.own
		fewest = min(fewest, s.own)
		cheapest = min(cheapest, s.cost)
	}
	mean := float64(total) / float64(len(ch.left))
	own := float64(home.own)
	if own > homeFactor*mean+homeSlack ||
		own >= float64(fewest)+leastFactor*mean+leastSlack ||
		home.cost > worseFactor*cheapest+worseSlack {
		return nil
	}
	return home
}
