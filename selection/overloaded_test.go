package selection

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// busy has the endpoint say that it has too much to do.
func (w *world) busy(address string, retryAfter time.Duration) {
	w.endpoint(address).NoteOverload(w.now, retryAfter)
}

func (w *world) refuse(address string) {
	for range 3 {
		w.endpoint(address).NotReached(w.now, "refused")
	}
}

// A server that has too much to do is left alone until it takes work again. When
// such servers are all there is, the request is to wait, and is told how long.
func TestOverloadedEndpointsGetNothingNew(t *testing.T) {
	a, b, c := addresses(3)[0], addresses(3)[1], addresses(3)[2]
	p := prompt(part{"whatever", 100})
	for _, tc := range []struct {
		name  string
		set   func(w *world, call *llmlb.Call)
		want  Verdict
		at    string
		retry time.Duration // 0 for never
	}{
		{"one", func(w *world, _ *llmlb.Call) { w.busy(a, time.Second); w.only(a, b) }, Granted, b, 0},
		{"one, the other's memory is full", func(w *world, _ *llmlb.Call) {
			w.busy(a, time.Second)
			w.only(a, b)
			w.scrape(b, 0, 0, 0.99)
		}, Granted, b, 0},
		{"one, the other in another zone", func(w *world, _ *llmlb.Call) {
			w.settings.Zone, w.settings.Members[0].Zone, w.settings.Members[1].Zone = "eu", "eu", "us"
			w.busy(a, time.Second)
			w.only(a, b)
		}, Granted, b, 0},
		{"one, the other down", func(w *world, _ *llmlb.Call) {
			w.only(a, b)
			w.busy(a, time.Second)
			w.refuse(b)
		}, Overloaded, "", time.Second},
		{"all", func(w *world, _ *llmlb.Call) {
			w.busy(a, 3*time.Second)
			w.busy(b, 2*time.Second)
			w.busy(c, 5*time.Second)
		}, Overloaded, "", 2 * time.Second},
		{"all, the one that is soonest is down", func(w *world, _ *llmlb.Call) {
			w.busy(a, 3*time.Second)
			w.busy(b, 2*time.Second)
			w.busy(c, 5*time.Second)
			w.refuse(b)
		}, Overloaded, "", 3 * time.Second},
		{"all, the one that is soonest failed this Call", func(w *world, call *llmlb.Call) {
			w.busy(a, 3*time.Second)
			w.busy(b, 2*time.Second)
			w.busy(c, 5*time.Second)
			call.Exclude(w.endpoint(b))
		}, Overloaded, "", 3 * time.Second},
		{"one, the other at its limit", func(w *world, _ *llmlb.Call) {
			w.settings.Members[1].MaxConcurrent = 1
			w.only(b)
			w.grant(p)
			w.only(a, b)
			w.busy(a, time.Second)
		}, Overloaded, "", time.Second},
		{"one at its limit, too", func(w *world, _ *llmlb.Call) {
			w.settings.Members[0].MaxConcurrent = 1
			w.only(a)
			w.grant(p)
			w.busy(a, time.Second)
		}, Full, "", 0},
		{"all, and the request is for a list of models", func(w *world, call *llmlb.Call) {
			w.only(a)
			w.busy(a, time.Second)
			call.Features = llmlb.Features{}
		}, Granted, a, 0},
		{"one that drains", func(w *world, _ *llmlb.Call) { w.busy(a, time.Second); w.only() }, None, "", 0},
		{"all said so to this Call, two have room again", func(w *world, call *llmlb.Call) {
			w.busy(c, 5*time.Second)
			for _, address := range addresses(3) {
				call.ExcludeBusy(w.endpoint(address))
			}
		}, Overloaded, "", time.Nanosecond}, // at once
		{"one said so to this Call, the others failed it", func(w *world, call *llmlb.Call) {
			w.busy(a, time.Second)
			call.ExcludeBusy(w.endpoint(a))
			call.Exclude(w.endpoint(b))
			call.Exclude(w.endpoint(c))
		}, Overloaded, "", time.Second},
		{"one said so to this Call, another is free", func(w *world, call *llmlb.Call) {
			call.ExcludeBusy(w.endpoint(a))
			w.only(a, b)
		}, Granted, b, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, addresses(3)...)
			w.settings.KVLimit = 0.95
			call := w.call(p)
			call.RetryAt = w.now.Add(time.Hour) // of a choice before
			tc.set(w, call)
			if v := Grant(call, w.now); v != tc.want {
				t.Fatalf("verdict %v, want %v", v, tc.want)
			}
			switch wait := call.RetryAt.Sub(w.now); {
			case tc.retry == 0 && !call.RetryAt.IsZero():
				t.Errorf("asked to wait %v for nothing", wait)
			case tc.retry == time.Nanosecond && wait != 0:
				t.Errorf("asked to wait %v, want none", wait)
			case tc.retry > time.Nanosecond && wait != tc.retry:
				t.Errorf("asked to wait %v, want %v", wait, tc.retry)
			}
			if tc.at != "" && where(call) != tc.at {
				t.Errorf("at %s, want %s", where(call), tc.at)
			}
			if tc.want != Overloaded {
				return
			}
			w.now = call.RetryAt
			call.Readmit()
			if v := Grant(call, w.now); v != Granted {
				t.Errorf("after the wait the verdict is %v", v)
			}
		})
	}
}

// The proxy's loop is told the same: nil, and when to come again.
func TestSelectTellsWhenToComeAgain(t *testing.T) {
	for _, dynamic := range []bool{false, true} {
		w := newWorld(t, addresses(2)...)
		p, us := w.bound()
		if dynamic {
			w.settings.Members, w.settings.Dynamic = nil, true
			w.pool.Lock()
			for _, u := range us {
				w.pool.Sight(u.Dial, w.now)
			}
			w.pool.Unlock()
		}
		w.now = time.Now() // Select's clock
		for _, e := range w.pool.Endpoints() {
			e.NoteOverload(w.now, 20*time.Second)
		}
		c := w.call(prompt(part{"question", 800}))
		if u := p.Select(us, w.admitted(c), nil); u != nil {
			t.Fatalf("dynamic %v: sent to %s", dynamic, u.Dial)
		}
		if wait := c.RetryAt.Sub(w.now); wait != 20*time.Second || !c.Exhausted || c.Attempts != 0 {
			t.Errorf("dynamic %v: wait %v, exhausted %v, %d attempts", dynamic, wait, c.Exhausted, c.Attempts)
		}
	}
}

// Where no admission waits, a server that has too much to do answers for itself,
// rather than one that is known to be gone or nobody.
func TestAloneAnOverloadedServerAnswersForItself(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	p, us := w.bound()
	p.logger = zap.NewNop()
	w.now = time.Now()
	w.busy(us[0].Dial, 20*time.Second)
	w.refuse(us[1].Dial)
	r := bare()
	if u := p.Select(us, r, nil); u != us[0] {
		t.Fatalf("got %v, want the overloaded one", u)
	}
	// Having answered so to this very request, it is not asked again.
	llmlb.CallOf(r.Context()).ExcludeBusy(w.endpoint(us[0].Dial))
	if u := p.Select(us, r, nil); u != us[1] {
		t.Errorf("got %v, want the other", u)
	}
}

// So it does when the other is at its limit: alone, nobody waits for that either.
func TestAloneAnOverloadedServerComesBeforeALimit(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	p, us := w.bound()
	p.logger = zap.NewNop()
	w.settings.Members[1].MaxConcurrent = 1
	w.only(us[1].Dial)
	w.grant(prompt(part{"question", 100}))
	w.only(us[0].Dial, us[1].Dial)
	w.now = time.Now()
	w.busy(us[0].Dial, 20*time.Second)
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
	if u := p.Select(us, r, nil); u != us[0] {
		t.Errorf("got %v, want the overloaded one", u)
	}
}

// A policy of Caddy's is offered nobody who has too much to do.
func TestDelegatedPoliciesAreNotOfferedOverloadedServers(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	w.settings.Delegated, w.settings.Strategy = true, "first"
	p, us := w.bound()
	p.selector = reverseproxy.FirstSelection{}
	w.now = time.Now()
	w.busy(us[0].Dial, 20*time.Second)
	c := w.call(prompt(part{"question", 800}))
	if v := Grant(c, w.now); v != Later {
		t.Fatalf("verdict %v, want Later", v)
	}
	if u := p.Select(us, w.admitted(c), nil); u != us[1] {
		t.Errorf("got %v, want the other", u)
	}
	w.busy(us[1].Dial, 10*time.Second)
	c = w.call(prompt(part{"question", 800}))
	if v := Grant(c, w.now); v != Overloaded || c.RetryAt.Sub(w.now) != 10*time.Second {
		t.Errorf("verdict %v, wait %v", v, c.RetryAt.Sub(w.now))
	}
}

// Attempts are counted over all turns of a Call, though the proxy begins to count
// anew each time that admission calls it.
func TestAttemptsAreCountedOverAllTurns(t *testing.T) {
	w := newWorld(t, addresses(4)...)
	w.settings.Retries = 2
	p, us := w.bound()
	c := w.grant(prompt(part{"question", 800}))
	r := w.admitted(c)
	for range 2 {
		if p.Select(us, r, nil) == nil {
			t.Fatal("no attempt")
		}
		c.ExcludeBusy(c.Lease.Endpoint())
		c.EndAttempt(w.now, llmlb.Overloaded)
	}
	c.Readmit() // admission has waited
	if v := Grant(c, time.Now()); v != Granted {
		t.Fatalf("verdict %v", v)
	}
	r = w.admitted(c)
	if p.Select(us, r, nil) == nil || c.Attempts != 3 {
		t.Fatalf("no third attempt, or %d", c.Attempts)
	}
	if u := p.Select(us, r, nil); u != nil || !c.Exhausted {
		t.Errorf("a fourth attempt at %v", u)
	}
	c.Readmit()
	if v := Grant(c, time.Now()); v != None || c.Lease != nil {
		t.Errorf("verdict %v for a Call without attempts left", v)
	}
	// What is granted all the same is given back, and is no attempt.
	c.Attempts = 0
	Grant(c, time.Now())
	granted := c.Lease.Endpoint()
	c.Attempts = 3
	if u := p.Select(us, w.admitted(c), nil); u != nil || c.Lease != nil {
		t.Errorf("bound to %v, lease %v", u, c.Lease)
	}
	if prefill, decode := granted.Ledger().OwnCalls(); prefill+decode != 0 || w.pool.Retries() != 2 {
		t.Errorf("%d calls left, %d retries counted, want 2", prefill+decode, w.pool.Retries())
	}
}
