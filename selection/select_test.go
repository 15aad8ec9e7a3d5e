package selection

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// bound is a policy bound to a world's pool, and the proxy's upstreams.
func (w *world) bound() (*Policy, reverseproxy.UpstreamPool) {
	p := &Policy{handle: llmlb.NewHandle("test"), IndexBytes: 1 << 20}
	p.handle.Set(w.pool, w.settings)
	var us reverseproxy.UpstreamPool
	for _, m := range w.settings.Members {
		us = append(us, &reverseproxy.Upstream{Dial: m.Address, Host: new(reverseproxy.Host)})
	}
	return p, us
}

// admitted is the request of a Call that admission has granted.
func (w *world) admitted(c *llmlb.Call) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	c.Body = []byte(`{"model":"m"}`)
	return r.WithContext(llmlb.WithCall(r.Context(), c))
}

// Select binds to what was granted, makes no second reservation, and gives every
// attempt the body.
func TestSelectBindsToTheGrant(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	p, us := w.bound()
	c := w.grant(prompt(part{"question", 800}))
	r, want := w.admitted(c), where(c)
	lease := c.Lease
	u := p.Select(us, r, nil)
	if u == nil || u.Dial != want {
		t.Fatalf("bound to %v, granted %s", u, want)
	}
	if c.Lease != lease || c.Attempts != 1 {
		t.Errorf("lease changed: %v; attempts %d, want 1", c.Lease != lease, c.Attempts)
	}
	if r.ContentLength != 13 || r.GetBody != nil || r.TransferEncoding != nil {
		t.Errorf("request framed as %d bytes, %v", r.ContentLength, r.TransferEncoding)
	}
	if got, err := request.ReadBody(r.Body, -1, 100); string(got) != `{"model":"m"}` || err != nil {
		t.Errorf("body %q, %v", got, err)
	}
	c.SawFirstToken(w.now)
	c.EndAttempt(w.now, llmlb.Served)
	if n := held(indexOf(w.pool), c.Blocks, w.endpoint(want).CacheID(), w.now.Add(time.Hour)); n != len(c.Blocks) {
		t.Errorf("%d of %d blocks learned", n, len(c.Blocks))
	}
}

// Each further Select means that the attempt before has failed: its lease ends
// as what the transport says, or as unreachable, and its endpoint is not used
// again. When none is left the answer is nil, at once and for good.
func TestSelectAfterFailuresTakesTheOthersAndThenNone(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	p, us := w.bound()
	c := w.grant(prompt(part{"question", 800}))
	r := w.admitted(c)
	var seen []string
	for i := range 3 {
		u := p.Select(us, r, nil)
		if u == nil || slices.Contains(seen, u.Dial) {
			t.Fatalf("attempt %d at %v after %v", i, u, seen)
		}
		if got, err := request.ReadBody(r.Body, -1, 100); string(got) != `{"model":"m"}` || err != nil {
			t.Errorf("attempt %d: body %q, %v", i, got, err)
		}
		seen = append(seen, u.Dial)
		if i == 1 { // the transport knows how this one ended
			c.EndAttempt(w.now, llmlb.Overloaded)
		}
	}
	for range 3 {
		if u := p.Select(us, r, nil); u != nil {
			t.Fatalf("a fourth attempt at %s", u.Dial)
		}
	}
	if !c.Exhausted || c.Lease != nil || c.Attempts != 3 {
		t.Errorf("exhausted %v, lease %v, attempts %d", c.Exhausted, c.Lease, c.Attempts)
	}
	for i, want := range []llmlb.Outcome{llmlb.Unreachable, llmlb.Overloaded, llmlb.Unreachable} {
		if n := w.endpoint(seen[i]).Ended(want); n != 1 {
			t.Errorf("attempt %d is not counted as %v", i, want)
		}
		if p, d := w.endpoint(seen[i]).Ledger().OwnCalls(); p+d != 0 {
			t.Errorf("%s keeps a lease", seen[i])
		}
	}
}

// A grant that cannot be used any more is given back without counting as an
// attempt, and another endpoint is chosen at once.
func TestSelectChoosesAgainWhenTheGrantIsOfNoUse(t *testing.T) {
	for name, spoil := range map[string]func(w *world, us reverseproxy.UpstreamPool, granted string) reverseproxy.UpstreamPool{
		"not among the proxy's upstreams": func(_ *world, us reverseproxy.UpstreamPool, granted string) reverseproxy.UpstreamPool {
			return slices.DeleteFunc(us, func(u *reverseproxy.Upstream) bool { return u.Dial == granted })
		},
		"draining since": func(w *world, us reverseproxy.UpstreamPool, granted string) reverseproxy.UpstreamPool {
			w.only(slices.DeleteFunc(addresses(2), func(a string) bool { return a == granted })...)
			return us
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, addresses(2)...)
			p, us := w.bound()
			c := w.grant(prompt(part{"question", 800}))
			granted := where(c)
			r := w.admitted(c)
			u := p.Select(spoil(w, us, granted), r, nil)
			if u == nil || u.Dial == granted {
				t.Fatalf("got %v, want the other than %s", u, granted)
			}
			if where(c) != u.Dial || c.Attempts != 1 {
				t.Errorf("lease at %s, %d attempts", where(c), c.Attempts)
			}
			for _, o := range llmlb.Outcomes() {
				if n := w.endpoint(granted).Ended(o); n != 0 {
					t.Errorf("%d attempts counted as %v where none was made", n, o)
				}
			}
		})
	}
}

// A down endpoint that got the Call as its trial is bound to all the same.
func TestSelectBindsToATrial(t *testing.T) {
	w := newWorld(t, addresses(1)...)
	p, us := w.bound()
	for range 3 {
		w.endpoint(us[0].Dial).NotReached(w.now, "refused")
	}
	w.now = w.now.Add(time.Minute)
	c := w.grant(prompt(part{"question", 800}))
	if u := p.Select(us, w.admitted(c), nil); u != us[0] {
		t.Errorf("got %v", u)
	}
}

// With dynamic upstreams admission leaves the choice to Select.
func TestSelectChoosesAmongDynamicUpstreams(t *testing.T) {
	w := newWorld(t)
	w.settings.Dynamic = true
	p, _ := w.bound()
	c := w.call(prompt(part{"question", 800}))
	if v := Grant(c, w.now); v != Later || c.Lease != nil {
		t.Fatalf("verdict %v, want Later", v)
	}
	fresh := func() reverseproxy.UpstreamPool {
		return reverseproxy.UpstreamPool{
			{Dial: "10.4.0.1:8000", Host: new(reverseproxy.Host)},
			{Dial: "10.4.0.2:8000", Host: new(reverseproxy.Host)},
		}
	}
	r := w.admitted(c)
	first := p.Select(fresh(), r, nil)
	second := p.Select(fresh(), r, nil)
	if first == nil || second == nil || first.Dial == second.Dial {
		t.Fatalf("got %v, then %v", first, second)
	}
	if u := p.Select(fresh(), r, nil); u != nil {
		t.Errorf("got %v a third time", u)
	}
	if n := len(w.pool.Endpoints()); n != 2 {
		t.Errorf("%d endpoints, want 2", n)
	}
}

// A Call of another pool is not this proxy's: its lease stays as it is.
func TestSelectLeavesTheCallOfAnotherPoolAlone(t *testing.T) {
	theirs, w := newWorld(t, "10.9.0.1:8000"), newWorld(t, addresses(2)...)
	p, us := w.bound()
	c := theirs.grant(prompt(part{"question", 800}))
	r := theirs.admitted(c)
	u := p.Select(us, r, nil)
	if u == nil || !slices.Contains(us, u) {
		t.Fatalf("got %v", u)
	}
	if c.Lease == nil || where(c) != "10.9.0.1:8000" || c.Attempts != 0 {
		t.Error("the other pool's Call was touched")
	}
	if own := llmlb.CallOf(r.Context()); own == c || own.Pool != w.pool {
		t.Error("the transport would account for the other pool's Call")
	}
}

// bare is a request that no admission has seen.
func bare() *http.Request {
	return httptest.NewRequest(http.MethodGet, "/v1/models", nil)
}

// Alone, the policy sees no tokens. A stream that runs for minutes must not
// count as a prompt still to be computed all that time.
func TestTheFirstTokenIsTakenToComeWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, addresses(2)...)
		p, us := w.bound()
		p.logger = zap.NewNop()
		ctx, cancel := context.WithCancel(t.Context())
		body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 2000) + `"}]}`
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
		u := p.Select(us, r, nil)
		ledger := w.endpoint(u.Dial).Ledger()
		calls := func() (prefill, decode, tokens int) {
			w.pool.Lock()
			defer w.pool.Unlock()
			prefill, decode = ledger.OwnCalls()
			tokens, _ = ledger.TokensInFlight()
			return prefill, decode, tokens
		}
		if prefill, decode, tokens := calls(); prefill != 1 || decode != 0 || tokens < 2000 {
			t.Errorf("at first %d in prefill, %d in decode, %d tokens", prefill, decode, tokens)
		}
		time.Sleep(time.Minute)
		if prefill, decode, tokens := calls(); prefill != 0 || decode != 1 || tokens != 0 {
			t.Errorf("later %d in prefill, %d in decode, %d tokens", prefill, decode, tokens)
		}
		cancel()
		synctest.Wait()
		if prefill, decode, _ := calls(); prefill != 0 || decode != 0 {
			t.Errorf("in the end %d in prefill, %d in decode", prefill, decode)
		}
	})
}
