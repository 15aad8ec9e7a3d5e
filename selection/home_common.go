package selection

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// Several gateways before the same servers share nothing but where conversations are
// at home. What one of them knows of the others' work is seconds wrong when servers
// are busy, and were each to leave homes for that, nobody would find anything, and
// they would be busier still. So homes are kept at some cost, in proportion to what
// they save where others' work is most: see docs/policy.md.
const (
	// homeWorth is how many times the time that the Call's own prompt would take its
	// home may cost more than elsewhere, where all that the servers do is others' and
	// all of a prompt is found at its home. homeWorthMost is the most that this comes
	// to: more finds little more, and fills some servers with long prompts.
	homeWorth, homeWorthMost = 60, 6

	// homeCommon is how much of what it saves a home may cost more than another
	// endpoint that is known to hold the prefix.
	homeCommon = 0.5

	// homesTried is how many prompts engines must have told of before a spill goes
	// home. Cold prompts try homes before it is known what they are worth; what is
	// warm somewhere has more to lose.
	homesTried = 20
)

// keepsHome reports whether the Call goes to its home rather than to the cheapest seat,
// on which it would have to be computed: because other gateways may have sent the
// conversation there, which we would know nothing of, or will look for it there.
//
// It is by the home's pace, which looks slow while others keep it busy, that the time is
// counted; but a slow kind of server should not be kept the longer for that. Pay is
// homesPay's, and not 0.
func (ch *choice) keepsHome(home, cheapest *seat, pay float64) bool {
	allowed := min(homeWorthMost, homeWorth*pay)
	return home.cost <= cheapest.cost+allowed*ch.effort(cheapest)/homePace(home, cheapest)
}

// homePace is the speed by which what a home saves is counted.
func homePace(home, other *seat) float64 {
	return max(home.rate.Speed, other.rate.Speed/homeStep)
}

// strictHome returns the Call's home where that is worth its cost, or nil.
func (ch *choice) strictHome(cheapest *seat) *seat {
	pay := ch.homesPay()
	if pay == 0 {
		return nil
	}
	if home := ch.homeOf(); ch.keepsHome(home, cheapest, pay) {
		return home
	}
	return nil
}

// commonHome returns the home of a Call whose prefix we know to be at s, where other
// gateways will look for it: or nil. Each of them would otherwise keep a copy where
// it happened to send the first such prompt, and caches hold them only once. A home
// past a threshold would be left again with the next one.
func (ch *choice) commonHome(s *seat) *seat {
	share := ch.homesPay()
	if share == 0 {
		return nil
	}
	home := ch.homeOf()
	if home == s || home.warm || ch.past(home) != llmlb.ReasonNone {
		return nil
	}
	found := float64(llmlb.Work{Uncached: ch.uncached(s), Cached: s.matched}.Effort())
	saved := (1 + work) * max(0, ch.effort(home)-found) / homePace(home, s)
	if home.cost-share*saved > s.cost+homeCommon*share*saved {
		return nil
	}
	ch.call.SentHome = true
	return home
}

// spillHome returns the home of a Call that would leave all warm seats for another one,
// s: or nil. What is computed at s other gateways do not find, and one of them that
// finds a copy there for itself leaves the home as well.
func (ch *choice) spillHome(s *seat) *seat {
	if ch.call.Pool.HomesTried() < homesTried {
		return nil
	}
	home := ch.strictHome(s)
	if home == nil || ch.past(home) != llmlb.ReasonNone {
		return nil
	}
	ch.call.SentHome = !home.warm
	return home
}

// waitsAtHome reports whether the Call waits for its home, which has no room now.
// Another place, where nothing of it is found, makes the more work the less room
// there is.
func (ch *choice) waitsAtHome(home *seat) bool {
	if !ch.call.SentHome {
		return false
	}
	pay := ch.homesPay()
	if pay == 0 {
		return false
	}
	cheapest := home
	for _, s := range ch.left {
		if s.cost < cheapest.cost {
			cheapest = s
		}
	}
	return ch.keepsHome(home, cheapest, pay)
}

// homesPay is the share of a prompt that is likely at its home because of other
// gateways: none where the Call has no home.
func (ch *choice) homesPay() float64 {
	if ch.call.Key == 0 {
		return 0
	}
	return ch.othersShare() * ch.homeShare()
}

const (
	// othersLeast is how many requests must have been seen at scrapes, each at as
	// many as it was open, before it is known whose they are.
	othersLeast = 200

	// othersNone is the share of others' work below which there are no others: where
	// engines are overrun a gateway takes up to 2 % of its own requests for theirs.
	othersNone = 0.1
)

// othersShare is the share of what the servers have to do that is not ours.
func (ch *choice) othersShare() float64 {
	seen, all := 0.0, 0.0
	for _, s := range ch.left {
		seen += s.brief().Others
		all += s.brief().All
	}
	if all < othersLeast || seen < othersNone*all {
		return 0 // nobody, or too little has been seen to say
	}
	return seen / all
}

// homeShare is the share of a prompt that its home has, though we did not know: by
// what engines answer, or else as much as they say in their metrics that they find of
// all prompts.
func (ch *choice) homeShare() float64 {
	share, known := ch.call.Pool.HomeShare()
	if known {
		return share
	}
	hits, prompt := 0.0, 0.0
	for _, s := range ch.left {
		hits += s.brief().Hits
		prompt += s.brief().Prompts
	}
	if prompt == 0 {
		return share / 2
	}
	return min(1, hits/prompt)
}
