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
		why := llmlb.ReasonNone
		for _, s := range ch.left {
			if r := ch.past(s); r == llmlb.ReasonNone {
				ch.aside = append(ch.aside, s)
			} else if s.warm && why == llmlb.ReasonNone {
				why = r
			}
		}
		if len(ch.aside) > 0 {
			among = ch.aside
			if why != llmlb.ReasonNone {
				spill = why
			}
		}
	}
	s := ch.least(among, false)
	if s.warm && ch.explores(s) {
		if away := ch.bestOther(among, s); away != nil {
			return away, llmlb.ReasonSpillLoad
		}
	}
	if s.warm {
		return s, llmlb.ReasonWarm
	}
	return ch.least(among, true), spill
}

const (
	// exploreOver is how many times the mean load a prefix's home must have
	// before it is left for the sake of a second home, exploreOne in how many
	// choices that happens, and exploreLeast the requests there must be at the
	// home at all: one call at a time leaves a prefix where it is.
	exploreOver  = 1.25
	exploreOne   = 16
	exploreLeast = 3
)

// explores reports whether this Call is the one in some that leaves the prefix's
// busy home although staying would be a little cheaper. It makes a second home
// before the first is overrun, where the cost alone would weld a hot prefix to
// one server.
func (ch *choice) explores(home *seat) bool {
	if ch.random%exploreOne != 0 {
		return false
	}
	total := 0.0
	for _, s := range ch.left {
		total += s.waiting + s.running
	}
	load := home.waiting + home.running
	return load >= exploreLeast && load > exploreOver*total/float64(len(ch.left))
}

// bestOther returns the cheapest seat that is neither warm nor much of a loss.
func (ch *choice) bestOther(among []*seat, home *seat) (away *seat) {
	for _, s := range among {
		if !s.warm && s.waiting+s.running < home.waiting+home.running && (away == nil || s.cost < away.cost) {
			away = s
		}
	}
	return away
}

// past tells which threshold the seat has reached, if any.
func (ch *choice) past(s *seat) llmlb.Reason {
	if limit := ch.settings.SpillWaiting; limit > 0 && s.waiting >= limit {
		return llmlb.ReasonSpillWaiting
	}
	if limit := ch.settings.SpillTTFT; limit > 0 && s.recent > limit.Seconds() {
		return llmlb.ReasonSpillTTFT
	}
	return llmlb.ReasonNone
}
