package selection

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// barred says why a seat is not to be taken, as a set.
type barred uint8

const (
	barOut   barred = 1 << iota // draining, failed for this Call, or unavailable
	barLimit                    // at max_concurrent
	barDown                     // unreachable and not due for a trial
	barKV                       // its KV cache would pass kv_limit
)

// survey reads each endpoint's state once. Everything after works on the seats.
func (ch *choice) survey() {
	for i := range ch.seats {
		s := &ch.seats[i]
		e := s.endpoint
		load := e.Load(ch.now, ch.settings)
		s.blind, s.failing, s.own = load.Blind, load.Failing(), load.Own
		s.waiting, s.running, s.prefill = load.Waiting, load.Running, load.PrefillTokens
		s.kv, s.kvRoom = load.KVUsage, load.KVCapacity
		s.foreign(&load)
		s.recent = llmlb.Unknown
		if d, known := e.RecentTTFT(ch.now); known {
			s.recent = d.Seconds()
		}
		if len(ch.holders) > 0 {
			id := e.CacheID()
			for _, h := range ch.holders {
				if h.cache == id {
					s.matched = ch.call.CoveredTokens(int(h.blocks))
					ch.best = max(ch.best, s.matched)
				}
			}
		}
		ch.judge(s)
	}
}

// judge fills in why the seat is barred.
func (ch *choice) judge(s *seat) {
	if s.endpoint.Draining() || !s.available || ch.call.Excluded(s.endpoint) {
		s.barred |= barOut
	}
	if s.limit > 0 && s.own >= s.limit && ch.call.Generates() {
		s.barred |= barLimit
	}
	if s.endpoint.Down(ch.now) {
		s.barred |= barDown
	}
	if s.kv >= 0 {
		after := s.kv
		if s.kvRoom > 0 {
			after += float64(ch.uncached(s)) / s.kvRoom
		}
		if limit := ch.settings.KVLimit; limit > 0 && after >= limit {
			s.barred |= barKV
		}
	}
}

// filter puts the seats that may be taken into left. When there are none it
// gives up the KV limit, then, if all that could take the Call are down, that
// they are. An endpoint that is up but at its limit makes the pool full instead:
// waiting for it is better than trying one that is known to be gone.
func (ch *choice) filter() Verdict {
	var seen [1 << 4]bool
	for i := range ch.seats {
		seen[ch.seats[i].barred] = true
	}
	var allow barred
	switch {
	case seen[0]:
	case seen[barKV]:
		allow = barKV
	case seen[barLimit] || seen[barLimit|barKV]:
		return Full
	case seen[barDown] || seen[barDown|barKV]:
		allow = barDown | barKV
	case seen[barDown|barLimit] || seen[barDown|barLimit|barKV]:
		return Full
	default:
		return None
	}
	for i := range ch.seats {
		if s := &ch.seats[i]; s.barred&^allow == 0 {
			ch.left = append(ch.left, s)
		}
	}
	ch.usable = len(ch.left)
	return Granted
}
