package llmlb

import (
	"iter"
	"time"
)

// OnRoom sets the function that is told when an endpoint may have room for more
// work, or has gone out of use: those who wait for it can then be asked again. It
// is called outside the pool's lock, often, and by whoever made the change.
func (p *Pool) OnRoom(f func(*Endpoint)) { p.onRoom.Store(&f) }

// roomAt tells that the endpoint may have room.
func (p *Pool) roomAt(e *Endpoint) {
	if f := p.onRoom.Load(); f != nil {
		(*f)(e)
	}
}

// roomAnywhere tells it of all endpoints.
func (p *Pool) roomAnywhere() {
	if p.onRoom.Load() == nil {
		return
	}
	for _, e := range p.Endpoints() {
		p.roomAt(e)
	}
}

// Members returns the endpoints of the settings: its static ones, or all that are
// known where upstreams are dynamic. Under the pool's lock; not to be kept.
func (p *Pool) Members(s *Settings) []*Endpoint {
	if s.Dynamic {
		return p.order
	}
	list := make([]*Endpoint, 0, len(s.Members))
	for i := range s.Members {
		list = append(list, p.Living(s.Members[i].Endpoint))
	}
	return list
}

// Reachable goes over the members that a Call of the settings may use: its own, as
// the newest configuration describes them if it does, and those that one has
// besides, where requests reach servers in the same way under both. So requests
// that wait while servers are exchanged go to the new ones. Under the pool's lock.
func (p *Pool) Reachable(s *Settings) iter.Seq[*Member] {
	return func(yield func(*Member) bool) { p.reachable(s, yield) }
}

// reachable is apart so that Reachable can be inlined, and going over it makes nothing.
func (p *Pool) reachable(s *Settings, yield func(*Member) bool) {
	current := p.current()
	if current == nil {
		current = s
	}
	for i := range s.Members {
		m := &s.Members[i]
		if current != s { // which would say the same
			if newer := current.byAddress[m.Address]; newer != nil {
				m = newer
			}
		}
		if !yield(m) {
			return
		}
	}
	if current == s || current.Reach != s.Reach || current.Dynamic {
		return
	}
	for i := range current.Members {
		if m := &current.Members[i]; s.byAddress[m.Address] == nil && !yield(m) {
			return
		}
	}
}

// Added reports whether the endpoint is one that a Call of the settings may use
// though they do not name it: see Reachable.
func (p *Pool) Added(e *Endpoint, s *Settings) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for m := range p.Reachable(s) {
		if m.Address == e.address && s.byAddress[m.Address] == nil {
			return true
		}
	}
	return false
}

// InUse reports whether a dynamic upstream was named of late. Under the pool's
// lock.
func (e *Endpoint) InUse(now time.Time) bool {
	const late = 10 * time.Second
	return e.leases > 0 || now.Sub(e.lastUse) < late
}

// NextRoom returns the next moment at which an endpoint may have room by nothing
// but the passing of time: a pause ends, a trial is due, a first token is thought
// to have come that nobody sees, or enough of a prompt has been computed. Zero when
// there is none.
func (p *Pool) NextRoom(now time.Time) (at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.current()
	if s == nil {
		return time.Time{} // between two configurations
	}
	a := p.Asking(now, s)
	first := never
	for _, e := range p.order {
		first = min(first, e.Brief(&a).room)
	}
	if first == never {
		return time.Time{}
	}
	return now.Add(first - a.at)
}

// decodeQuietly has those calls count as decoding that show no tokens and whose
// first must have come by now: a prompt that counted as uncomputed for as long as
// its answer runs would keep others away from a server that has nothing to
// compute.
func (e *Endpoint) decodeQuietly(now time.Time) {
	if e.quietDue.IsZero() || now.Before(e.quietDue) {
		return
	}
	e.quietDue = time.Time{}
	for l := range e.quiet {
		switch {
		case l.phase != Prefill, l.due.IsZero():
		case l.due.After(now):
			e.isQuietUntil(l.due)
		default:
			l.firstToken(now)
		}
	}
}

func (e *Endpoint) isQuietUntil(due time.Time) {
	if e.quietDue.IsZero() || due.Before(e.quietDue) {
		e.quietDue = due
	}
}

// Retired reports whether the newest configuration no longer names an endpoint
// that a Call of older settings could still choose. Where it names none that the Call
// could use nothing is retired. Under the pool's lock.
func (p *Pool) Retired(e *Endpoint, s *Settings) bool {
	current := p.current()
	switch {
	case current == nil, current == s:
		return false
	case current.Dynamic || s.Dynamic || current.byAddress[e.address] != nil:
		return false
	case current.Reach == s.Reach && len(current.Members) > 0:
		return true // see Reachable
	}
	for i := range s.Members {
		if current.byAddress[s.Members[i].Address] != nil {
			return true
		}
	}
	return false
}

// OutSince returns since when no endpoint of the settings can be used, zero while
// one can, or where that is not known.
func (p *Pool) OutSince(s *Settings, now time.Time) (since time.Time) {
	if s.Dynamic {
		return time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for m := range p.Reachable(s) {
		e := p.Living(m.Endpoint)
		if e.Usable(now, s) {
			return time.Time{}
		}
		if _, _, t := e.State(now); t.After(since) {
			since = t
		}
	}
	return since
}

// Usable reports whether the endpoint may get new work under the settings given,
// be it as a trial, or although checks have taken it out with all others. Under the
// pool's lock.
func (e *Endpoint) Usable(now time.Time, s *Settings) bool {
	if e.drain.on() || e.Down(now) {
		return false
	}
	if _, _, starting := e.Starting(s); starting {
		return false
	}
	return !e.CheckedOut(s) || e.ServesAnyway(now, s)
}

// AllDown reports whether the pool serves although checks have taken all of its
// endpoints out: see Endpoint.ServesAnyway.
func (p *Pool) AllDown(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.allDown(now)
}

// AllRefused reports whether requests are refused because checks have taken out
// every endpoint that could serve them, and the operator wants that.
func (p *Pool) AllRefused(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.allRefused(now)
}

func (p *Pool) allRefused(now time.Time) (refused bool) {
	s := p.current()
	if s == nil || !s.Checks.Refuse {
		return false
	}
	for _, e := range p.Members(s) {
		if e.Usable(now, s) {
			return false
		}
		refused = refused || !e.drain.on() && e.CheckedOut(s)
	}
	return refused
}

func (p *Pool) allDown(now time.Time) (anyway bool) {
	s := p.current()
	if s == nil {
		return false
	}
	for _, e := range p.Members(s) {
		switch {
		case !e.Usable(now, s):
		case e.CheckedOut(s):
			anyway = true
		default:
			return false
		}
	}
	return anyway
}
