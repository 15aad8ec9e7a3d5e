package selection

// A Call that no endpoint holds a useful prefix for goes to the home of its
// conversation, by rendezvous hashing, so that gateways which know nothing of
// each other send the turns of one conversation to one place. The home keeps it
// while it has room by our own count, and the Call would not wait much longer
// there than elsewhere.
//
// It is the wait that counts here, what others have to do with the cost, and not
// how long the prompt itself takes: a slow endpoint would be clearly worse even
// when idle, and get nothing until the fast ones are overrun.
const (
	// homeFactor and homeSlack bound the home's own calls by those of the mean
	// endpoint.
	homeFactor, homeSlack = 1.1, 1

	// leastFactor and leastSlack bound them by those of the emptiest one, with
	// some of the mean: a burst of new conversations spreads as evenly as
	// calls do, and a crowded pool does not move its conversations about for
	// an ordinary difference.
	leastFactor, leastSlack = 0.2, 2

	// coldFactor and coldSlack do so for cold calls alone. They fill caches and
	// cost most as a rule, so they are spread for themselves, among however
	// many warm ones. One more of those that are computed in no time is no
	// matter.
	coldFactor, coldSlack, briefSlack = 0.05, 0.5, 1

	// worseFactor and worseSlack (seconds) say what is much longer.
	worseFactor, worseSlack = 1.25, 0.050
)

// distinctTokens is how many tokens more than the mean seat one must hold for that to
// tell a conversation: half a block.
const distinctTokens = 32

// distinct reports whether some seats hold more of the prompt than the mean seat
// does. What all hold, such as a system prompt that everybody shares, says
// nothing of where a conversation belongs.
func (ch *choice) distinct() bool {
	best, sum := 0, 0
	for _, s := range ch.left {
		best = max(best, s.matched)
		sum += s.matched
	}
	return float64(best)-float64(sum)/float64(len(ch.left)) >= distinctTokens
}

// cold picks for a Call without a useful match: its home, or what costs least.
func (ch *choice) cold() *seat {
	if home := ch.home(); home != nil {
		ch.call.SentHome = true
		return home
	}
	cheapest := ch.leastBy(ch.left, true, (*seat).coldPrice)
	if home := ch.strictHome(cheapest); home != nil {
		ch.call.SentHome = true
		return home
	}
	return cheapest
}

// coldPrice is the cost, less what a match that is not worth much saves. The
// slack makes costs that nobody notices near ties.
func (s *seat) coldPrice() float64 {
	return s.wait + worseSlack - float64(s.matched)/s.rate.Speed
}

// home returns the seat that the Call's key falls on, or nil when that one
// should not have it.
func (ch *choice) home() *seat {
	var home *seat
	first := ch.left[0]
	calls, cold, weights := 0.0, 0.0, 0.0
	fewest, coldest, shortest := first.load(), first.coldLoad(), first.wait
	for _, s := range ch.left {
		calls += float64(s.own)
		cold += float64(s.cold)
		weight := s.weight()
		weights += weight
		fewest, coldest = min(fewest, float64(s.own)/weight), min(coldest, float64(s.cold)/weight)
		shortest = min(shortest, s.wait)
		if s.home {
			home = s
		}
	}
	if home == nil {
		return nil
	}
	mean, coldMean, weight := calls/weights, cold/weights, home.weight()
	slack := coldSlack
	if float64(ch.uncached(home)) < worseSlack*home.rate.Speed {
		slack = briefSlack
	}
	if home.load() > homeFactor*mean+homeSlack/weight ||
		home.load() >= fewest+leastFactor*mean+leastSlack/weight ||
		home.coldLoad() > coldest+coldFactor*coldMean+slack/weight ||
		home.wait > worseFactor*shortest+worseSlack {
		return nil
	}
	return home
}

// load is our own calls at the seat, by its weight.
func (s *seat) load() float64 { return float64(s.own) / s.weight() }

// coldLoad is those of them that were cold.
func (s *seat) coldLoad() float64 { return float64(s.cold) / s.weight() }
