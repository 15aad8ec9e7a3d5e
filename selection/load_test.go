package selection

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A server whose KV memory is nearly full must get no new work while another
// has room.
func TestAFullKVCacheIsLeftAlone(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	a, b := addresses(2)[0], addresses(2)[1]
	got := map[string]int{}
	for i := range 20 {
		w.scrape(a, 0, 0, 0.95)
		w.scrape(b, 0, 0, 0.10)
		to, _ := w.serve(prompt(part{fmt.Sprint("prompt ", i), 20}))
		got[to]++
	}
	if got[b] < 18 {
		t.Errorf("%d of 20 went to the server at 10 %%, want at least 18", got[b])
	}

	t.Run("unless all are full", func(t *testing.T) {
		w.scrape(b, 0, 0, 0.97)
		c := w.grant(prompt(part{"one more", 20}))
		if where(c) != a && where(c) != b {
			t.Error("nobody got the call")
		}
	})
	t.Run("counting what the call itself needs", func(t *testing.T) {
		s := llmlb.NoSignals(w.now)
		s.Running, s.Waiting, s.KVUsage, s.KVCapacity = 0, 0, 0.5, 10_000
		w.endpoint(a).ObserveSignals(s)
		s.KVUsage, s.KVCapacity, s.Running = 0.6, 100_000, 8
		w.endpoint(b).ObserveSignals(s)
		if c := w.grant(prompt(part{"long", 6000})); where(c) != b {
			t.Errorf("6,000 tokens went where 5,000 are free")
		}
	})
}

// A server without numbers is unknown, not idle: it must not draw everything
// away from one that honestly tells that it is busy.
func TestAnUnknownServerGetsAFairShareAndNoMore(t *testing.T) {
	for _, answer := range []string{"empty page", "no load on the page"} {
		t.Run(answer, func(t *testing.T) {
			for seed := range 20 {
				w := newWorld(t, addresses(2)...)
				a, b := addresses(2)[0], addresses(2)[1]
				if answer != "empty page" {
					w.endpoint(a).ObserveSignals(llmlb.NoSignals(w.now))
				}
				w.scrape(b, 1, 0, llmlb.Unknown)
				got := map[string]int{}
				for i := range 20 {
					got[where(w.grant(prompt(part{fmt.Sprint(seed, i), 1})))]++
				}
				w.within(got, 5, 15)
			}
		})
	}
}

// The last thing A told before its metrics hung is that it was idle. It is slow
// now, and must not attract traffic by what is no longer true.
func TestAFrozenIdleSampleStopsAttracting(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	a, b := addresses(2)[0], addresses(2)[1]
	w.scrape(a, 0, 0, 0)
	w.now = w.now.Add(w.settings.Scrape.StaleAfter)
	type running struct {
		call *llmlb.Call
		ends time.Time
	}
	var open []running
	got := map[string]int{}
	for i := range 20 {
		w.now = w.now.Add(50 * time.Millisecond)
		w.scrape(b, 2, 0, 0)
		for _, r := range open {
			if !r.ends.After(w.now) {
				r.call.EndAttempt(w.now, llmlb.Served)
			}
		}
		c := w.grant(prompt(part{fmt.Sprint("distinct ", i), 40}))
		got[where(c)]++
		takes := 50 * time.Millisecond
		if where(c) == a {
			takes = 2 * time.Second
		}
		open = append(open, running{c, w.now.Add(takes)})
	}
	if got[a] > 10 {
		t.Errorf("the server with stale numbers got %d of 20, want at most half", got[a])
	}
}

// All stale is not a full pool: own counts carry on.
func TestWithNoNumbersAtAllOwnCountsBalance(t *testing.T) {
	w := newWorld(t, addresses(4)...)
	got := map[string]int{}
	for i := range 80 {
		got[where(w.grant(prompt(part{fmt.Sprint("distinct ", i), 100})))]++
	}
	w.within(got, 16, 24)
}

// What other gateways send shows in the scrape alone.
func TestForeignLoadIsAvoided(t *testing.T) {
	for _, strategy := range Strategies() {
		w := newWorld(t, addresses(3)...)
		w.choosing(strategy)
		got := map[string]int{}
		for i := range 30 {
			w.scrape(addresses(3)[0], 30, 6, 0.5)
			w.scrape(addresses(3)[1], 20, 4, 0.5)
			w.scrape(addresses(3)[2], 4, 0, 0.5)
			a, _ := w.serve(prompt(part{fmt.Sprint("distinct ", i), 100}))
			got[a]++
		}
		if got[addresses(3)[2]] != 30 {
			t.Errorf("%s: got %v, want all at the one without a queue", strategy, got)
		}
	}
}

// A limit is a promise to the server: it holds whatever else would be better,
// and a pool at its limits is full rather than gone.
func TestMaxConcurrentIsNeverPassed(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	w.settings.Members[0].MaxConcurrent = 2
	w.settings.Members[1].MaxConcurrent = 3
	got := map[string]int{}
	var first *llmlb.Call
	for i := range 5 {
		c := w.grant(prompt(part{fmt.Sprint("distinct ", i), 100}))
		got[where(c)]++
		if first == nil {
			first = c
		}
	}
	if got[addresses(2)[0]] != 2 || got[addresses(2)[1]] != 3 {
		t.Fatalf("got %v, want 2 and 3", got)
	}
	c := w.call(prompt(part{"one too many", 100}))
	if v := Grant(c, w.now); v != Full || c.Lease != nil {
		t.Fatalf("verdict %v, want Full and no lease", v)
	}
	place := where(first)
	first.EndAttempt(w.now, llmlb.Served)
	if v := Grant(c, w.now); v != Granted || where(c) != place {
		t.Fatalf("verdict %v, want the place that became free", v)
	}
}

func TestWhatIsOutStaysOutAndWhatIsDownGetsTrials(t *testing.T) {
	down := func(w *world, address string) {
		for range 3 {
			w.endpoint(address).NotReached(w.now, "refused")
		}
	}
	a, b := addresses(2)[0], addresses(2)[1]
	p := prompt(part{"whatever", 100})
	for _, tc := range []struct {
		name string
		set  func(w *world, c *llmlb.Call)
		want Verdict
		at   string
	}{
		{"one draining", func(w *world, _ *llmlb.Call) { w.only(b) }, Granted, b},
		{"all draining", func(w *world, _ *llmlb.Call) { w.only() }, None, ""},
		{"one down", func(w *world, _ *llmlb.Call) { down(w, a) }, Granted, b},
		{"one down, the other at its limit", func(w *world, _ *llmlb.Call) {
			w.settings.Members[1].MaxConcurrent = 1
			w.settings.Members[0].Drain = true
			w.only(b)
			w.grant(p)
			w.only(a, b)
			down(w, a)
		}, Full, ""},
		{"one down, the other draining", func(w *world, _ *llmlb.Call) { w.only(a); down(w, a) }, Granted, a},
		{"one failed before", func(w *world, c *llmlb.Call) { c.Exclude(w.endpoint(a)) }, Granted, b},
		{"all failed before", func(w *world, c *llmlb.Call) { c.Exclude(w.endpoint(a)); c.Exclude(w.endpoint(b)) }, None, ""},
		{"one unhealthy for Caddy", func(w *world, _ *llmlb.Call) {
			w.settings.Members[0].Available = func() bool { return false }
		}, Granted, b},
		{"all unhealthy for Caddy", func(w *world, _ *llmlb.Call) {
			for i := range w.settings.Members {
				w.settings.Members[i].Available = func() bool { return false }
			}
		}, None, ""},
		{"a full cache before a refused connection", func(w *world, _ *llmlb.Call) {
			w.scrape(a, 0, 0, 0.99)
			down(w, b)
		}, Granted, a},
		{"dynamic upstreams", func(w *world, _ *llmlb.Call) { w.settings.Dynamic = true }, Later, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, a, b)
			c := w.call(p)
			tc.set(w, c)
			if v := Grant(c, w.now); v != tc.want {
				t.Fatalf("verdict %v, want %v", v, tc.want)
			}
			switch {
			case tc.at == "" && c.Lease != nil:
				t.Errorf("a lease at %s, want none", where(c))
			case tc.at != "" && where(c) != tc.at:
				t.Errorf("at %s, want %s", where(c), tc.at)
			}
			if tc.want == Granted && c.Decision.Reason != llmlb.ReasonOnly {
				t.Errorf("reason %v, want only", c.Decision.Reason)
			}
		})
	}
}

// Every reservation goes back to zero, whatever became of the Call.
func TestReservationsReturnToZero(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	var open []*llmlb.Call
	for i := range 60 {
		c := w.grant(prompt(part{"shared", 700}, part{fmt.Sprint(i), 50 * i}))
		if i%2 == 0 {
			c.SawFirstToken(w.now)
		}
		open = append(open, c)
	}
	for _, c := range open {
		c.EndAttempt(w.now, llmlb.ClientGone)
	}
	for _, m := range w.settings.Members {
		prefill, output := m.Endpoint.Ledger().TokensInFlight()
		p, d := m.Endpoint.Ledger().OwnCalls()
		if prefill != 0 || output != 0 || p != 0 || d != 0 {
			t.Errorf("%s keeps %d prompt and %d output tokens of %d+%d calls", m.Address, prefill, output, p, d)
		}
	}
}

// A server without numbers that stands among busy ones is most likely as busy
// as they are.
func TestAnUnknownServerIsTakenToBeAsBusyAsTheOthers(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	got := map[string]int{}
	for i := range 60 {
		for range 2 { // the first may still have seen our own call, the second has not
			w.scrape(addresses(3)[1], 20, 4, 0.3)
			w.scrape(addresses(3)[2], 20, 4, 0.3)
		}
		a, _ := w.serve(prompt(part{fmt.Sprint("distinct ", i), 100}))
		got[a]++
	}
	w.within(got, 10, 30)
}

// Not even the cache that a server without numbers holds draws more than its
// share to it, while another is there.
func TestAWarmServerWithoutNumbersGetsNoMoreThanItsShare(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	a, b := addresses(2)[0], addresses(2)[1]
	hot := prompt(part{"preamble", 4000}, part{"question", 10})
	w.only(a)
	w.serve(hot)
	w.only(a, b)
	w.scrape(b, 0, 0, 0.1)
	got := map[string]int{}
	for range 20 {
		got[where(w.grant(hot))]++
	}
	if got[a] != 10 {
		t.Errorf("the blind server got %d of 20, want its half and no more", got[a])
	}
}

// The only server that shows its numbers fails every request at once. What the
// others, not scraped yet, hold over their fair share went to it all the same,
// and the load that its failures left behind was imputed to them besides.
func TestBlindServersAreNotCappedInFavourOfOneThatFails(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	failing := addresses(3)[0]
	w.scrape(failing, 0, 0, llmlb.Unknown)
	failed := 0
	for i := range 60 {
		c := w.grant(prompt(part{fmt.Sprint("question ", i), 150}))
		if where(c) == failing {
			failed++
			c.EndAttempt(w.now, llmlb.Overloaded)
		}
		w.now = w.now.Add(2 * time.Millisecond)
	}
	if failed > 60/8 {
		t.Errorf("%d of 60 went to the server that fails", failed)
	}
}
