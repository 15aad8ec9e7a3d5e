package selection

import (
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// barred says why a seat is not to be taken, as a set.
type barred uint16

const (
	barOut      barred = 1 << iota // draining, retired, or unavailable
	barFailed                      // has failed this Call
	barStarting                    // not ready yet
	barModel                       // does not serve the model, while another does
	barLimit                       // at max_concurrent or max_tokens
	barChecks                      // checks have taken it out
	barDown                        // unreachable and not due for a trial, or asleep
	barKV                          // its KV cache would pass kv_limit
	barZone                        // in another zone
	barBusy                        // has said that it has too much to do
	barSpent                       // said so to this very Call, which waits before it asks again

	// barNow is what passes by itself or as work ends: an endpoint that nothing
	// else speaks against is well.
	barNow = barLimit | barKV | barZone | barBusy | barSpent
)

// why says in words what stands against the seat, the most important first, and
// nothing when it could be taken.
func (ch *choice) why(s *seat) string {
	switch b := s.barred; {
	case b == 0:
		return ch.shortened(s)
	case b&barOut != 0 && s.endpoint.Draining():
		return "draining"
	case b&barFailed != 0:
		return "failed this request"
	case b&barOut != 0 && ch.call.Pool.Retired(s.endpoint, ch.settings):
		return "no longer configured"
	case b&barOut != 0 && b&(barDown|barChecks) == 0:
		return "unavailable"
	case b&barStarting != 0:
		return "starting"
	case b&barModel != 0:
		return "other model"
	case b&barDown != 0 && s.endpoint.Asleep(ch.now, ch.settings):
		return "asleep"
	case b&barDown != 0 && s.endpoint.Circuit(ch.now) != llmlb.CircuitClosed:
		return "circuit " + s.endpoint.Circuit(ch.now).String()
	case b&barDown != 0:
		return "down"
	case b&barChecks != 0:
		return "failing its checks"
	case b&(barBusy|barSpent) != 0:
		return "overloaded"
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
	ch.where.note(ch.holders)
	ch.asking = ch.call.Pool.Asking(ch.now, ch.settings)
	generates := ch.call.Generates()
	if generates {
		ch.call.Pool.Asked(ch.call, ch.now)
	}
	for i := range ch.seats {
		s := &ch.seats[i]
		b := s.endpoint.Brief(&ch.asking)
		load := &b.Booked
		s.share, s.own, s.cold = b.Share, load.Own, b.ColdCalls
		s.blind, s.failing = load.Blind, load.Failing()
		s.waiting, s.running, s.context = load.Waiting, load.Running, load.Context
		s.beginning = b.Beginning
		s.prefill = b.Prefill(&ch.asking)
		if ch.call.Line != nil {
			s.ahead = ch.call.Line.Ahead(s.endpoint)
			s.prefill += s.ahead
		}
		if h := ch.where.find(b.CacheID, ch.holders); h != nil {
			s.matched = ch.call.CoveredTokens(int(h.blocks))
			s.proved = ch.call.CoveredTokens(int(h.proved))
			ch.best = max(ch.best, s.matched)
		}
		ch.rationed = ch.rationed || s.share < 1
		ch.blinds = ch.blinds || s.blind
		ch.judge(s, b, generates)
	}
	ch.judgeModels()
}

// judge fills in why the seat is barred.
func (ch *choice) judge(s *seat, b *llmlb.Brief, generates bool) {
	if !s.available || ch.call.Pool.Retired(s.endpoint, ch.settings) {
		s.barred |= barOut
	}
	switch {
	case !ch.call.Excludes():
	case ch.call.Spent(s.endpoint):
		s.barred |= barSpent
	case ch.call.Excluded(s.endpoint):
		s.barred |= barFailed
	}
	if generates && ch.atLimit(s, b) {
		s.barred |= barLimit
	}
	if !b.Well {
		ch.judgeUnwell(s)
	}
	if after := b.Booked.KVUsage; after >= 0 {
		if room := b.Booked.KVCapacity; room > 0 {
			after += float64(ch.uncached(s)) / room
		}
		if limit := ch.settings.KVLimit; limit > 0 && after >= limit {
			s.barred |= barKV
		}
	}
	if m := s.member; m != nil && m.Zone != "" && ch.settings.Zone != "" && m.Zone != ch.settings.Zone {
		s.barred |= barZone
	}
}

// judgeUnwell bars a seat whose endpoint is not as it should be.
func (ch *choice) judgeUnwell(s *seat) {
	if s.endpoint.Draining() {
		s.barred |= barOut
	}
	ch.judgeDown(s)
	// What generates nothing is no work.
	if _, busy := s.endpoint.Overloaded(ch.now); busy && ch.call.Generates() {
		s.barred |= barBusy
	}
}

// atLimit reports whether the seat has as much of our own work as it may have.
// A Call that is larger than max_tokens by itself is let in when it is alone:
// it would wait for ever.
func (ch *choice) atLimit(s *seat, b *llmlb.Brief) bool {
	m := s.member
	if m == nil {
		return false
	}
	if m.MaxConcurrent > 0 && s.own >= m.MaxConcurrent {
		return true
	}
	return m.MaxTokens > 0 && s.own > 0 &&
		b.PrefillTokens+b.OutputTokens+ch.uncached(s)+ch.call.ExpectedOutput() > m.MaxTokens
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
		if s := &ch.seats[i]; s.lacks {
			s.barred |= barModel
		}
	}
}

// listed asks every seat's endpoint for the model, and reports whether any lists
// it.
func (ch *choice) listed(model uint64) (listed bool) {
	var none, last unique.Handle[string] // a pool has few different lists
	serves := false
	for i := range ch.seats {
		s := &ch.seats[i]
		if list := s.brief().Models; list != last {
			last = list
			serves, _ = s.endpoint.Serves(model, ch.now)
		}
		s.lacks = last != none && !serves
		listed = listed || serves
	}
	return listed
}

// relaxations are what is given up, in this order, when no seat is free of it:
// first the KV limit, then the zone, then that checks have taken an endpoint out
// when they have taken out all, and that an endpoint is down when all are.
// Draining, that it is not ready, what failed for this Call, and limits are never
// given up. Where nobody waits, because there is no admission, neither can anybody
// wait until an overloaded endpoint takes work again: it gets the Call before one
// that is out or down, and answers for itself.
var (
	relaxations = []barred{
		0, barKV, barKV | barZone, barKV | barZone | barChecks, barKV | barZone | barChecks | barDown,
	}
	aloneRelaxations = []barred{
		0, barKV, barKV | barZone, barKV | barZone | barBusy, barKV | barZone | barBusy | barChecks,
		barKV | barZone | barBusy | barChecks | barDown,
	}
)

// filter puts the seats that may be taken into left. An endpoint that is up but
// at its limit makes the pool full, and one that only has too much to do makes it
// overloaded: waiting for it is better than trying one that is known to be gone.
// Of the two the pause is sure to end, so that it is told of when both are there.
func (ch *choice) filter() Verdict {
	ch.call.RetryAt = time.Time{}
	kinds := ch.kinds[:0]
	last := ^barred(0)
	for i := range ch.seats {
		b := ch.seats[i].barred
		if b != last && !slices.Contains(kinds, b) { // there are few
			kinds = append(kinds, b)
		}
		last = b
	}
	ch.kinds = kinds
	steps := relaxations
	if ch.alone {
		steps = aloneRelaxations
	}
	kept := ^barred(0)
	if ch.someWell() {
		kept = ^barChecks
	}
	for _, allow := range steps {
		allow &= kept
		found, full, busy := false, false, false
		for _, b := range kinds {
			switch left := b &^ allow; {
			case left == 0:
				found = true
			case left&^(barBusy|barSpent) == 0:
				busy = true
			case left&^(barBusy|barSpent) == barLimit:
				full = true
			}
		}
		switch {
		case found:
			ch.take(allow)
			ch.ration()
			return Granted
		case allow&barZone == 0: // neither is a reason to stay within the zone
		case busy && !ch.alone:
			ch.call.RetryAt = ch.retryAt(allow)
			return Overloaded
		case full && !(busy && ch.alone):
			return Full
		}
	}
	return None
}

// someWell reports whether an endpoint is well that serves the Call's model: then
// checks have not taken out all, and those that they have stay out, even if the
// well one has failed this Call.
func (ch *choice) someWell() bool {
	for _, b := range ch.kinds {
		if b&^(barNow|barFailed) == 0 {
			return true
		}
	}
	return false
}

// retryAt is when the first of the seats that are only overloaded takes work
// again.
func (ch *choice) retryAt(allow barred) (first time.Time) {
	for i := range ch.seats {
		s := &ch.seats[i]
		if s.barred&^(allow|barBusy|barSpent) != 0 {
			continue
		}
		until, busy := s.endpoint.Overloaded(ch.now)
		if !busy {
			until = ch.now // it has ended since the Call was there
		}
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	return first
}

func (ch *choice) take(allow barred) {
	for i := range ch.seats {
		if s := &ch.seats[i]; s.barred&^allow == 0 {
			ch.left = append(ch.left, s)
		}
	}
	ch.usable = len(ch.left)
}
