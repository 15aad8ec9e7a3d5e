package selection

import (
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// What an endpoint is given at once is as much prefill work as keeps it busy.
// More would stand in its own queue, where nobody can overtake, be cancelled for
// nothing, or still go elsewhere.
const (
	// enoughSamples is how many first tokens an endpoint must have shown for its
	// speed to count here. Until then calls count.
	enoughSamples = 3

	// mostUnseen is how many calls an endpoint of unknown speed gets between two
	// scrapes, mostBlind how many one without numbers has before their first
	// tokens.
	mostUnseen, mostBlind = 32, 16

	// mostUntried is how many prompt tokens it gets before their first tokens: long
	// prompts would swamp a slow one before it has shown that it is.
	mostUntried = 16 << 10

	// mostQueued is how many calls may be without a first token where the engine
	// says that it has a queue: its batch is full, however short prompts are. A
	// few wait in every engine until its step ends.
	mostQueued = 16
)

// roomIn reports whether the endpoint could use more work. One that has none of
// ours to compute always can. Under the pool's lock.
func roomIn(e *llmlb.Endpoint, load *llmlb.Load, now time.Time) bool {
	if most, known := e.CanTake(now); known && load.Own >= most {
		return false
	}
	l := e.Ledger()
	calls, decoding := l.OwnCalls()
	sig, _ := l.Signals()
	rate := e.Speed()
	if rate.Samples < enoughSamples {
		return calls+decoding == 0 || roomUnknown(e, load, sig.Waiting)
	}
	switch {
	case calls == 0:
		return true
	case !load.Blind && calls >= mostQueued && sig.Waiting >= 1:
		return false
	}
	return load.PrefillTokens-load.Phantom < llmlb.Horizon(rate.Speed, load.Running, e.Pool().Several(now))
}

// roomUnknown is roomIn for an endpoint of unknown speed. Where answers come whole
// nothing is ever learned of it. Its prompts are no measure then, because nobody
// knows when they have been computed: only the engine's own queue is. When that is
// long, a call may go there for each that has ended.
func roomUnknown(e *llmlb.Endpoint, load *llmlb.Load, waiting float64) bool {
	l := e.Ledger()
	calls, _ := l.OwnCalls()
	tokens, _ := l.TokensInFlight()
	silent, quiet := e.Silent()
	calls, tokens = calls-silent, tokens-quiet
	if calls > 0 && tokens >= mostUntried {
		return false
	}
	if load.Blind {
		return calls < mostBlind
	}
	return min(l.Unseen(), calls) < mostUnseen && (waiting < mostQueued || l.Added() < mostQueued)
}

// waitsFor reports whether the Call waits for the seat that was picked, which has
// no room now: one that holds its prefix, and for which `work` says that waiting
// costs less than computing the prefix elsewhere; or the home of its conversation,
// where other gateways look for it. The other strategies weigh no
// waiting, so that nothing would ever end it.
func (ch *choice) waitsFor(picked *seat) bool {
	if ch.usable == 1 || ch.settings.Strategy != StrategyWork || ch.call.Impatient {
		return false
	}
	return picked.warm || ch.waitsAtHome(picked)
}

// hasRoom reports whether the seat's endpoint could use more work.
func (ch *choice) hasRoom(s *seat) bool {
	load := s.brief().Load(&ch.asking)
	return roomIn(s.endpoint, &load, ch.now)
}

// onlyRoom leaves nothing but the seats with room, and reports whether there are
// any.
func (ch *choice) onlyRoom() bool {
	kept := ch.left[:0]
	for _, s := range ch.left {
		if ch.isOpen(s) {
			kept = append(kept, s)
		}
	}
	ch.left, ch.atHome = kept, nil
	return len(kept) > 0
}

// Room reports whether the endpoint could use more work, and whether it may get
// any at all, by the pool's current settings. That it has its share (see ration.go)
// is not looked at: by whom that is measured depends on the Call.
func Room(e *llmlb.Endpoint, now time.Time) (room, usable bool) {
	p := e.Pool()
	s := p.Current()
	if s == nil {
		return true, true // between two configurations: whoever is asked knows better
	}
	p.Lock()
	defer p.Unlock()
	m := s.Member(e.Address())
	_, busy := e.Overloaded(now)
	switch {
	case p.Living(e) != e, e.Draining(), e.Asleep(now, s):
		return false, false
	case e.Down(now):
		return !e.Gone(now), false
	case !inUse(e, m, s, now):
		return false, false
	case busy:
		return false, true
	}
	load := e.Load(now, s)
	if most := s.MaxConcurrent(e); most > 0 && load.Own >= most {
		return false, true
	}
	// Of one that the configuration no longer names only those may make use who
	// began under an older one and have no other; and of one that checks have taken
	// out those who have no other for their model.
	usable = m != nil || s.Dynamic
	if e.CheckedOut(s) {
		usable = usable && !someWell(p, s, now)
	}
	return roomIn(e, &load, now), usable
}

// inUse reports whether anybody may get a place at the endpoint, if not now, by
// the settings given. One that is down may get a trial, and is not in use. Under
// the pool's lock.
func inUse(e *llmlb.Endpoint, m *llmlb.Member, s *llmlb.Settings, now time.Time) bool {
	return available(m) && !e.Asleep(now, s) && e.Usable(now, s)
}

// available asks Caddy's own checks.
func available(m *llmlb.Member) bool { return m == nil || m.Available == nil || m.Available() }

// someWell reports whether checks have left an endpoint of the settings in use.
// Under the pool's lock.
func someWell(p *llmlb.Pool, s *llmlb.Settings, now time.Time) (well bool) {
	asking := p.Asking(now, s)
	each(p, s, func(e *llmlb.Endpoint, m *llmlb.Member) {
		if b := e.Brief(&asking); b.Well {
			well = well || available(m)
			return
		}
		well = well || !e.CheckedOut(s) && inUse(e, m, s, now)
	})
	return well
}

// each calls f with the endpoints that a Call of the settings may use, and what is
// said of them, nil where they are dynamic. Under the pool's lock.
func each(p *llmlb.Pool, s *llmlb.Settings, f func(*llmlb.Endpoint, *llmlb.Member)) {
	if !s.Dynamic {
		for m := range p.Reachable(s) {
			f(p.Living(m.Endpoint), m)
		}
		return
	}
	for _, e := range p.Members(s) {
		f(e, nil)
	}
}

// Saturation is how much the pool has to do by what it can take, 1 being all of
// it: the greatest of five requests waiting at each engine, four fifths of KV
// memory, and max_tokens, over the endpoints that may be used on average.
func Saturation(p *llmlb.Pool, now time.Time) float64 {
	s := p.Current()
	if s == nil {
		return 0
	}
	const waitingFull, kvFull = 5, 0.8
	p.Lock()
	defer p.Unlock()
	asking := p.Asking(now, s)
	n, waiting := 0.0, 0.0
	nKV, kv := 0.0, 0.0
	tokens, limit := 0.0, 0.0
	well := someWell(p, s, now)
	each(p, s, func(e *llmlb.Endpoint, m *llmlb.Member) {
		b := e.Brief(&asking)
		if b.Well {
			if !available(m) {
				return
			}
		} else if !inUse(e, m, s, now) || well && e.CheckedOut(s) {
			return
		}
		n++
		waiting += b.Booked.Waiting
		if b.Booked.KVUsage >= 0 {
			nKV++
			kv += b.Booked.KVUsage
		}
		if m != nil && m.MaxTokens > 0 {
			tokens += float64(b.PrefillTokens + b.OutputTokens)
			limit += float64(m.MaxTokens)
		}
	})
	if n == 0 {
		return 1
	}
	return max(waiting/n/waitingFull, kv/max(1, nKV)/kvFull, tokens/max(1, limit))
}

// Kind tells Calls apart that wait for different endpoints: by how they reach
// servers, by model, where somebody lists it, and by what has failed them.
func Kind(c *llmlb.Call) string {
	kind := c.Settings.Reach
	p := c.Pool
	p.Lock()
	defer p.Unlock()
	if model := listedAs(c); model != "" {
		kind += "\x00" + model
	}
	if failed := c.FailedAt(); failed != "" {
		kind += "\x00" + failed
	}
	return kind
}

// listedAs is the name by which somebody lists the Call's model: its own, or that
// of the model before an adapter. Empty where nobody does.
func listedAs(c *llmlb.Call) string {
	if c.Model == "" || c.Settings.Dynamic {
		return ""
	}
	now := time.Now()
	base, _, adapted := strings.Cut(c.Model, ":")
	names := []string{c.Model, base}
	if !adapted {
		names = names[:1]
	}
	for _, name := range names {
		model := llmlb.ModelHash(name)
		for m := range c.Pool.Reachable(c.Settings) {
			if listed, _ := c.Pool.Living(m.Endpoint).Serves(model, now); listed {
				return name
			}
		}
	}
	return ""
}

// AnyRoom reports whether any endpoint of the settings could use more work, as
// far as that is known.
func AnyRoom(s *llmlb.Settings, p *llmlb.Pool, now time.Time) bool {
	var list []*llmlb.Endpoint
	p.Lock()
	each(p, s, func(e *llmlb.Endpoint, _ *llmlb.Member) { list = append(list, e) })
	p.Unlock()
	for _, e := range list {
		if room, _ := Room(e, now); room {
			return true
		}
	}
	return false
}
