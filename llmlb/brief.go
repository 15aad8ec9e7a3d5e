package llmlb

import (
	"math"
	"time"
	"unique"
)

// Brief is what choices ask of every endpoint, worked out once and kept until
// something changes: of a thousand endpoints hardly any has done so since the
// choice before. It is never out of date. Whatever changes an endpoint calls touch,
// what time changes bounds how long the brief lasts, and what changes with each
// moment is not in it. Under the pool's lock; not to be kept.
type Brief struct {
	made, until time.Duration // of the pool's clock: for as long as nothing happens
	terms       uint64        // the number of those it was made under
	room        time.Duration // when the passing of time may make room: see Pool.NextRoom

	first   begun // the prompt of which that is; none where no speed is known
	rate    Rate
	rateAge time.Duration // since the last sample

	endpoint *Endpoint
	loads    bool // the engine loads what requests name

	// Booked is Endpoint.Load before what must have been computed by now is taken
	// off its PrefillTokens: see Prefill.
	Booked Load

	// Well says that nothing that the endpoint is or does speaks against it: it does
	// not drain, is up and ready, and has not said that it has too much to do. Limits
	// and a full KV cache are another matter.
	Well bool

	CacheID       uint32
	Share         float64 // see Endpoint.Share
	Recent        float64 // see Endpoint.RecentTTFT: in seconds, or Unknown
	PrefillTokens int     // see Ledger.TokensInFlight
	OutputTokens  int
	ColdCalls     int

	// ForeignWaiting is how many of the requests that wait there are others', and
	// Beginning how many have their own prompt computed before that of one that
	// comes now, ours included.
	ForeignWaiting, Beginning float64

	Others, All   float64 // see Ledger.OthersShare
	Hits, Prompts float64 // see Ledger.CachedShare

	// Models is equal for endpoints whose lists of models are equal. The zero value
	// is that nothing is known, or not of late.
	Models unique.Handle[string]
}

// never is beyond all times of the pool's clock.
const never time.Duration = math.MaxInt64

// terms is what of some Settings a Brief depends on.
type terms struct {
	interval, staleAfter, warmUp  time.Duration
	readiness, mustPass, canaries bool
}

// Asking is a moment at which endpoints are asked for their Briefs.
type Asking struct {
	now      time.Time
	at       time.Duration // by the pool's clock
	terms    uint64
	settings *Settings
}

// Asking begins to ask endpoints of the pool, for the settings given. Under the
// pool's lock.
func (p *Pool) Asking(now time.Time, s *Settings) Asking {
	t := terms{
		interval: s.Scrape.Interval, staleAfter: s.Scrape.StaleAfter, warmUp: s.Checks.WarmUp,
		readiness: s.readiness(), mustPass: s.Checks.MustPass, canaries: s.Checks.Canary.On(),
	}
	if t != p.terms || p.clock.IsZero() {
		p.terms = t
		p.termsNumber++ // what was made under others counts for nothing
	}
	if p.clock.IsZero() {
		p.clock = now
	}
	return Asking{now: now, at: now.Sub(p.clock), terms: p.termsNumber, settings: s}
}

// Brief returns the endpoint's.
func (e *Endpoint) Brief(a *Asking) *Brief {
	if b := &e.brief; a.at >= b.made && a.at < b.until && a.terms == b.terms {
		return b
	}
	return e.renew(a)
}

// LastBrief returns the one that was asked for last, in the same critical section.
func (e *Endpoint) LastBrief() *Brief { return &e.brief }

// touch has what was worked out of the endpoint be worked out again. Whatever
// changes what a Brief says calls it, under the pool's lock.
func (e *Endpoint) touch() { e.brief.until = -never }

// renew works the Brief out.
func (e *Endpoint) renew(a *Asking) *Brief {
	now, s := a.now, a.settings
	e.decodeQuietly(now)
	b, l := &e.brief, &e.ledger
	*b = Brief{
		made: a.at, until: never, room: never, terms: a.terms, endpoint: e, CacheID: e.cacheID,
		rate: e.rates.rate(), rateAge: now.Sub(e.rates.at), loads: e.served.resident.told,
		Share: e.Share(now, s), Recent: Unknown,
		PrefillTokens: l.own.prefillTokens, OutputTokens: l.own.outputTokens, ColdCalls: e.coldCalls,
	}
	b.Others, b.All = l.OthersShare()
	b.Hits, b.Prompts = l.CachedShare()
	b.Booked = l.Load(now, s.Scrape.Interval, s.Scrape.StaleAfter, b.rate.Speed)
	own, _ := l.OwnCalls()
	// Of ours without a first token all wait but the first.
	b.ForeignWaiting = min(b.Booked.Foreign, max(0, b.Booked.Waiting-float64(max(0, own-1))))
	b.Beginning = float64(own) + b.ForeignWaiting
	if b.rate.Samples >= enoughSamples {
		b.first = e.prefills.first(now)
	}
	if d, known := e.RecentTTFT(now); known {
		b.Recent = d.Seconds()
	}
	if e.served.believed(now) {
		b.Models = e.served.id
	}
	_, busy := e.Overloaded(now)
	_, _, starting := e.Starting(s)
	b.Well = !busy && !starting && !e.drain.on() && !e.reach.down && !e.circuit.open &&
		!l.signals.Sleeping && !e.CheckedOut(s)
	b.makesRoom(a)
	b.bound(a)
	return b
}

// makesRoom works out when the passing of time may make room.
func (b *Brief) makesRoom(a *Asking) {
	e := b.endpoint
	at := func(t time.Time) {
		if t.After(a.now) {
			b.room = min(b.room, a.at+t.Sub(a.now))
		}
	}
	at(e.overload.until)
	if e.reach.down {
		at(e.reach.trialAt)
	}
	if e.circuit.open {
		at(e.circuit.trialAt)
	}
	at(e.quietDue)
	if b.rate.Samples >= enoughSamples {
		// Others may come to ask meanwhile, and go.
		for _, several := range []bool{false, true} {
			horizon := Horizon(b.rate.Speed, b.Booked.Running, several)
			at(e.prefills.fallsTo(horizon, b.Booked.PrefillTokens-b.Booked.Phantom, b.rate.Speed))
		}
	}
}

// bound works out until when the Brief is true.
func (b *Brief) bound(a *Asking) {
	e, now, s := b.endpoint, a.now, a.settings
	l := &e.ledger
	until := func(t time.Time) { b.until = min(b.until, a.at+t.Sub(now)) }
	past := func(t time.Time) { b.until = min(b.until, a.at+t.Sub(now)+1) }
	// What fades, and what rises, is another with each moment.
	fading := !b.Booked.Blind && now.Sub(l.signals.At) > 2*s.Scrape.Interval
	warming := s.Checks.WarmUp > 0 && !e.warmFrom.IsZero() && now.Sub(e.warmFrom) < s.Checks.WarmUp
	if fading || warming || b.Booked.Phantom > 0 || l.denial.pages >= denialPages {
		b.until = a.at
		return
	}
	if !b.Booked.Blind {
		until(l.signals.At.Add(s.Scrape.StaleAfter))
		past(l.signals.At.Add(2 * s.Scrape.Interval))
	}
	b.until = min(b.until, b.room) // among others when a quiet call is taken to decode
	if b.Recent != Unknown {
		if t := e.ttftAt; now.Sub(t) <= ttftKeep {
			past(t.Add(ttftKeep))
		} else {
			past(l.engineTTFTAt.Add(ttftKeep))
		}
	}
	if b.Models != (unique.Handle[string]{}) {
		past(e.served.at.Add(modelsKeep))
	}
}

// Load is Endpoint.Load.
func (b *Brief) Load(a *Asking) Load {
	ld := b.Booked
	ld.PrefillTokens = b.Prefill(a)
	return ld
}

// Prefill is its PrefillTokens.
func (b *Brief) Prefill(a *Asking) float64 {
	if b.first.most == 0 {
		return b.Booked.PrefillTokens
	}
	return b.Booked.PrefillTokens - b.first.done(a.at-b.made, b.rate.Speed)
}

// Rate is Endpoint.Rate.
func (b *Brief) Rate(a *Asking) (r Rate, fresh float64) {
	if b.rate.Samples < enoughSamples {
		return b.rate, 0
	}
	return b.rate, freshAfter(b.rateAge + a.at - b.made)
}

// LoadDelay is Endpoint.LoadDelay.
func (b *Brief) LoadDelay(model uint64, now time.Time) float64 {
	if !b.loads {
		return 0
	}
	return b.endpoint.LoadDelay(model, now)
}
