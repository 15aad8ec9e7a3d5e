package selection

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// The strategies.
const (
	StrategyWork        = "work"
	StrategyPrefixSpill = "prefix_spill"
	StrategyWeighted    = "weighted"
)

// Strategies returns the names that the option takes.
func Strategies() []string { return []string{StrategyWork, StrategyPrefixSpill, StrategyWeighted} }

// work picks the seat with the least cost when some seats are warm. The cost
// counts what a cache saves, so affinity and spill follow from it: while a
// prefix is asked for one at a time its home is always the cheapest, and it is
// left when what has gathered there costs more than computing the prefix again.
//
// spill_waiting and spill_ttft are off here unless set. A set threshold is the
// operator's word over the estimate: a warm endpoint past it is taken only when
// no other is below.
func (ch *choice) work() (*seat, llmlb.Reason) {
	among, spill := ch.left, llmlb.ReasonSpillLoad
	if ch.settings.SpillWaiting > 0 || ch.settings.SpillTTFT > 0 {
		ch.aside = ch.aside[:0]
		var full *seat
		why := llmlb.ReasonNone
		for _, s := range ch.left {
			if r := ch.past(s); r == llmlb.ReasonNone {
				ch.aside = append(ch.aside, s)
			} else if s.warm && (full == nil || s.cost < full.cost) {
				full, why = s, r
			}
		}
		if len(ch.aside) > 0 {
			among = ch.aside
			if full != nil {
				spill, ch.behind = why, full
			}
		}
	}
	s := ch.least(among, false)
	if s.warm {
		if home := ch.commonHome(s); home != nil {
			ch.behind = nil
			return home, llmlb.ReasonCold
		}
		if away := ch.secondHome(among, s); away != nil {
			ch.behind = s
			return away, llmlb.ReasonSpillExplore
		}
		ch.behind = nil
		return s, llmlb.ReasonWarm
	}
	home := ch.spillHome(s)
	if home != nil && home.warm {
		ch.behind = nil
		return home, llmlb.ReasonWarm
	}
	if ch.behind == nil {
		ch.behind = ch.cheapestWarm()
	}
	if home == nil {
		home = ch.least(among, true)
	}
	return home, spill
}

// cheapestWarm returns the warm seat that was left for its cost.
func (ch *choice) cheapestWarm() (won *seat) {
	for _, s := range ch.left {
		if s.warm && (won == nil || s.cost < won.cost) {
			won = s
		}
	}
	return won
}

const (
	// exploreOver is how many times the mean load each of a prefix's homes must
	// have before they are left for the sake of another one, exploreOne in how
	// many choices that happens, and exploreLeast the requests there must be at
	// a home at all: one call at a time leaves a prefix where it is.
	exploreOver  = 1.25
	exploreOne   = 16
	exploreLeast = 3
)

// secondHome returns the seat that this Call is to make a home of the prefix,
// although staying would be a little cheaper, or nil: one Call in some, while all
// homes are busier than most. It is there before they are overrun, where the cost
// alone would weld a hot prefix to its servers.
func (ch *choice) secondHome(among []*seat, home *seat) (away *seat) {
	if ch.random%exploreOne != 0 {
		return nil
	}
	total := 0.0
	for _, s := range ch.left {
		total += s.busy()
	}
	over := max(exploreLeast, exploreOver*total/float64(len(ch.left)))
	for _, s := range ch.left {
		if s.warm && s.busy() < over {
			return nil
		}
	}
	for _, s := range among {
		if !s.warm && s.busy() < home.busy() && (away == nil || s.cost < away.cost) {
			away = s
		}
	}
	return away
}

// busy is how many requests there are at the seat.
func (s *seat) busy() float64 { return s.waiting + s.running }

// past tells which threshold the seat has reached, if any.
func (ch *choice) past(s *seat) llmlb.Reason {
	if limit := ch.settings.SpillWaiting; limit > 0 && s.waiting >= limit {
		return llmlb.ReasonSpillWaiting
	}
	if limit := ch.settings.SpillTTFT; limit > 0 && s.brief().Recent > limit.Seconds() {
		return llmlb.ReasonSpillTTFT
	}
	return llmlb.ReasonNone
}
