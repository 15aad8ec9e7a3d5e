package selection

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// The strategies.
const (
	StrategyWork        = "work"
	StrategyPrefixSpill = "prefix_spill"
)

// Strategies returns the names that the option takes.
func Strategies() []string { return []string{StrategyWork, StrategyPrefixSpill} }

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
	if s.warm {
		return s, llmlb.ReasonWarm
	}
	return ch.least(among, true), spill
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
