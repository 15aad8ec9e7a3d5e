package selection

import (
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// barred says why a seat is not to be taken, as a set.
type barred uint8

const (
	barOut   barred = 1 << iota // draining, failed for this Call, or unavailable
	barModel                    // does not serve the model, while another does
	barLimit                    // at max_concurrent or max_tokens
	barDown                     // unreachable and not due for a trial, or asleep
	barKV                       // its KV cache would pass kv_limit
	barZone                     // in another zone
)

// why says in words what stands against the seat, the most important first, and
// nothing when it could be taken.
func (ch *choice) why(s *seat) string {
	switch b := s.barred; {
	case b == 0:
		return ""
	case b&barOut != 0 && s.endpoint.Draining():
		return "draining"
	case b&barOut != 0 && ch.call.Excluded(s.endpoint):
		return "failed this request"
	case b&barOut != 0:
		return "unavailable"
	case b&barModel != 0:
		return "other model"
	case b&barDown != 0 && s.endpoint.Asleep(ch.now, ch.settings):
		return "asleep"
	case b&barDown != 0:
		return "down"
	case b&barLimit != 0 && s.member.MaxConcurrent > 0 && s.own >= s.member.MaxConcurrent:
		return "at max_concurrent"
	case b&barLimit != 0:
		return "at max_tokens"
	case b&barKV != 0:
		return "over kv_limit"
	}
	return "other zone"
}

// survey reads each endpoint's state once. Everything after works on the seats.
func (ch *choice) survey() {
	for i := range ch.seats {
		s := &ch.seats[i]
		e := s.endpoint
		load := e.Load(ch.now, ch.settings)
		s.blind, s.failing, s.own = load.Blind, load.Failing(), load.Own
		var prefill int
		prefill, s.output = e.Ledger().TokensInFlight()
		s.flight, s.cold = prefill+s.output, e.ColdCalls()
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
					s.proved = ch.call.CoveredTokens(int(h.proved))
					ch.best = max(ch.best, s.matched)
				}
			}
		}
		ch.judge(s)
	}
	ch.judgeModels()
}

// judge fills in why the seat is barred.
func (ch *choice) judge(s *seat) {
	if s.endpoint.Draining() || !s.available || ch.call.Excluded(s.endpoint) {
		s.barred |= barOut
	}
	if ch.atLimit(s) {
		s.barred |= barLimit
	}
	if s.endpoint.Down(ch.now) || s.endpoint.Asleep(ch.now, ch.settings) {
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
	if m := s.member; m != nil && m.Zone != "" && ch.settings.Zone != "" && m.Zone != ch.settings.Zone {
		s.barred |= barZone
	}
}

// atLimit reports whether the seat has as much of our own work as it may have.
// A Call that is larger than max_tokens by itself is let in when it is alone:
// it would wait for ever.
func (ch *choice) atLimit(s *seat) bool {
	m := s.member
	if m == nil || !ch.call.Generates() {
		return false
	}
	if m.MaxConcurrent > 0 && s.own >= m.MaxConcurrent {
		return true
	}
	return m.MaxTokens > 0 && s.own > 0 &&
		s.flight+ch.uncached(s)+ch.call.ExpectedOutput() > m.MaxTokens
}

// judgeModels bars the seats that do not serve the Call's model. Where none is
// known to, the lists are not to be believed: some engines answer to any name.
func (ch *choice) judgeModels() {
	if ch.call.Model == "" {
		return
	}
	if !ch.listed(ch.model) {
		// SGLang takes an adapter behind the model's name and lists the model
		// alone.
		base, _, adapted := strings.Cut(ch.call.Model, ":")
		if !adapted || !ch.listed(llmlb.ModelHash(base)) {
			return
		}
	}
	for i := range ch.seats {
		if s := &ch.seats[i]; s.lists && !s.serves {
			s.barred |= barModel
		}
	}
}

// listed asks every seat's endpoint for the model, and reports whether any lists
// it.
func (ch *choice) listed(model uint64) (listed bool) {
	for i := range ch.seats {
		s := &ch.seats[i]
		s.serves, s.lists = s.endpoint.Serves(model, ch.now)
		listed = listed || s.serves
	}
	return listed
}

// relaxations are what is given up, in this order, when no seat is free of it:
// first the KV limit, then the zone, and that an endpoint is down when all are.
// Draining, what failed for this Call, and limits are never given up.
var relaxations = [...]barred{0, barKV, barKV | barZone, barKV | barZone | barDown}

// filter puts the seats that may be taken into left. An endpoint that is up but
// at its limit makes the pool full: waiting for it is better than trying one
// that is known to be gone.
func (ch *choice) filter() Verdict {
	var seen [1 << 6]bool
	for i := range ch.seats {
		seen[ch.seats[i].barred] = true
	}
	for _, allow := range relaxations {
		found, full := false, false
		for b, there := range seen {
			if there {
				found = found || barred(b)&^allow == 0
				full = full || barred(b)&^allow == barLimit
			}
		}
		// A limit is no reason to stay within the zone.
		if full && !found && allow&barZone != 0 {
			return Full
		}
		if found {
			ch.take(allow)
			return Granted
		}
	}
	return None
}

func (ch *choice) take(allow barred) {
	for i := range ch.seats {
		if s := &ch.seats[i]; s.barred&^allow == 0 {
			ch.left = append(ch.left, s)
		}
	}
	ch.usable = len(ch.left)
}
