package selection

import (
	"context"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

type servingKey struct{}

// serving is one request on its way through the proxy's loop of attempts.
type serving struct {
	policy *Policy
	index  *index
	call   *llmlb.Call
	own    bool // the policy made the Call, so it ends its Leases

	last   *llmlb.Endpoint // of the attempt begun last
	stop   func()          // takes back what watches an own Lease
	header http.Header     // the response's before a policy of Caddy's wrote to it
}

// next begins an attempt.
func (s *serving) next(upstreams reverseproxy.UpstreamPool, r *http.Request, w http.ResponseWriter, now time.Time) *reverseproxy.Upstream {
	c := s.call
	if s.last != nil {
		s.failed(now)
	}
	if whole := s.guard(r); c.Exhausted || c.GivenUp() || !whole || s.spent() {
		c.Exhausted = true
		s.giveBack(now)
		return nil
	}
	u := s.granted(upstreams, now)
	if u == nil {
		s.unsay(w)
		u = s.choose(upstreams, r, w, now)
	}
	if u == nil {
		c.Exhausted = true
		return nil
	}
	s.last = c.Lease.Endpoint()
	c.Begin(s.last, now)
	if s.own {
		s.watch(r.Context())
	}
	s.arm(r)
	return u
}

// spent reports whether the Call has had all its attempts. Behind admission they
// count over all of its turns; the proxy counts those of one. Where the policy is
// alone there is one turn.
func (s *serving) spent() bool { return !s.own && !s.call.AttemptsLeft() }

// failed settles the attempt before: were it not for its failure, the proxy
// would not ask again. The transport may have settled it already, and knows
// better how it ended.
func (s *serving) failed(now time.Time) {
	c := s.call
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	if c.Lease != nil {
		o := c.Outcome
		if o == llmlb.OutcomeNone {
			o = llmlb.Unreachable
		}
		c.EndAttempt(now, o)
	}
	c.Learn = nil
	c.Exclude(s.last) // unless whoever saw the attempt has said why
	s.last = nil
}

// granted returns the upstream that the Call's Lease is for. A Lease that
// cannot be used, because the proxy was not given that upstream or because it
// went out of use since, is given back; it never was an attempt.
func (s *serving) granted(upstreams reverseproxy.UpstreamPool, now time.Time) *reverseproxy.Upstream {
	c := s.call
	if c.Lease == nil {
		return nil
	}
	e := c.Lease.Endpoint()
	c.Pool.Lock()
	draining := e.Draining()
	c.Pool.Unlock()
	if !draining && !c.Excluded(e) {
		if u := s.upstream(upstreams, e); u != nil && u.Available() {
			return u
		}
	}
	s.giveBack(now)
	return nil
}

// upstream returns the proxy's for the endpoint: one that it was given, or one made
// for a server that only a newer configuration has.
func (s *serving) upstream(upstreams reverseproxy.UpstreamPool, e *llmlb.Endpoint) *reverseproxy.Upstream {
	for _, u := range upstreams {
		if u.Dial == e.Address() {
			return u
		}
	}
	if c := s.call; s.own || c.Settings.Dynamic || !c.Pool.Added(e, c.Settings) {
		return nil
	}
	return &reverseproxy.Upstream{Dial: e.Address(), Host: new(reverseproxy.Host)}
}

// giveBack ends a Lease without an attempt.
func (s *serving) giveBack(now time.Time) {
	c := s.call
	if c.Lease != nil {
		c.Lease.End(now)
		c.Lease, c.Learn, c.Decision = nil, nil, llmlb.Decision{}
	}
}

// choose picks among the upstreams that the proxy gives, and reserves.
func (s *serving) choose(upstreams reverseproxy.UpstreamPool, r *http.Request, w http.ResponseWriter, now time.Time) *reverseproxy.Upstream {
	c := s.call
	ch := newChoice(c, s.index, now)
	defer ch.free()
	ch.alone = s.own
	picked, kept, v := s.reserve(ch, upstreams, r, w)
	if v != Granted {
		c.Crowded = v == Full
		return nil
	}
	kept.remember(c, s.index, now)
	if s.own && c.Learn != nil {
		// Nobody here will see the first token.
		c.Learn(now)
	}
	if picked.upstream == outside {
		return s.upstream(upstreams, picked.endpoint)
	}
	return upstreams[picked.upstream]
}

// reserve makes the choice in one critical section.
func (s *serving) reserve(ch *choice, upstreams reverseproxy.UpstreamPool, r *http.Request, w http.ResponseWriter) (picked *seat, k kept, v Verdict) {
	s.call.Pool.Lock()
	defer s.call.Pool.Unlock()
	ch.addUpstreams(upstreams)
	if s.policy.selector != nil {
		picked, v = ch.delegate(s.policy.selector, upstreams, r, w)
	} else {
		picked, v = ch.reserve()
	}
	return picked, ch.keep(picked), v
}

// addUpstreams takes the upstreams of one attempt as seats. What the settings
// do not list is dynamic. Under the pool's lock.
func (ch *choice) addUpstreams(upstreams reverseproxy.UpstreamPool) {
	for i, u := range upstreams {
		s := ch.addSeat()
		s.upstream, s.available = i, u.Available()
		if m := ch.settings.Member(u.Dial); m != nil {
			s.endpoint, s.member = ch.call.Pool.Living(m.Endpoint), m
		} else {
			s.endpoint = ch.call.Pool.Sight(u.Dial, ch.now)
		}
	}
	if ch.alone || ch.settings.Dynamic || ch.settings.Delegated {
		return
	}
	for m := range ch.call.Pool.Reachable(ch.settings) {
		if ch.settings.Member(m.Address) == nil {
			ch.addMember(m)
		}
	}
}

// watch ends the Lease when the request does, and has it in decode when its
// first token is due: nobody here sees tokens, and a prompt that counted as
// uncomputed for as long as its answer runs would keep others away. Both run on
// other goroutines, so they touch the Lease alone, which bears it.
func (s *serving) watch(ctx context.Context) {
	lease := s.call.Lease
	due := time.AfterFunc(s.call.Decision.Predicted, lease.FirstToken)
	stop := context.AfterFunc(ctx, func() {
		due.Stop()
		lease.End(time.Now())
	})
	s.stop = func() { stop(); due.Stop() }
}
