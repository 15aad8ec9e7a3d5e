package selection

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// checked has readiness checks of the endpoint bring the verdict, as many as take
// it out.
func (w *world) checked(address string, v llmlb.CheckVerdict) {
	w.t.Helper()
	for range llmlb.DefaultReadinessFails {
		w.endpoint(address).ObserveReadiness(w.now, llmlb.CheckResult{Began: w.now, Verdict: v, Reason: "told by the test"},
			llmlb.Readiness{Fails: llmlb.DefaultReadinessFails, Passes: 1})
	}
}

// failed has real traffic fail at the endpoint.
func (w *world) failed(address string) {
	w.t.Helper()
	w.pool.Lock()
	l := w.pool.Reserve(w.endpoint(address), w.now, llmlb.Work{Uncached: 10, Output: 1})
	w.pool.Unlock()
	c := w.call(llmlb.Features{InputTokens: 10})
	c.Lease = l
	c.EndAttempt(w.now.Add(time.Millisecond), llmlb.EngineError)
}

// barredAs is what the latest choice says against the endpoint.
func (w *world) barredAs(address string) string {
	name := w.endpoint(address).Name()
	for _, s := range w.pool.Explain()[0].Candidates {
		if s.Endpoint == name {
			return s.Barred
		}
	}
	w.t.Fatalf("the choice does not show %s", name)
	return ""
}

// An endpoint that is not ready, or that checks have taken out, gets nothing while
// there is another; the explanation says why. Alone it gets something only where
// that is documented.
func TestWhatIsNotReadyGetsNothing(t *testing.T) {
	for _, tc := range []struct {
		name  string
		makes func(w *world, address string)
		why   string
		alone Verdict
	}{
		{"loads its model", func(w *world, a string) { w.checked(a, llmlb.CheckLoading) }, "starting", None},
		{"fails its checks", func(w *world, a string) { w.checked(a, llmlb.CheckFailed) }, "failing its checks", Granted},
		{"drains by order", func(w *world, a string) { w.endpoint(a).Drain(w.now, llmlb.DrainOrder{}) }, "draining", None},
		{"drains and fails its checks", func(w *world, a string) {
			w.checked(a, llmlb.CheckFailed)
			w.endpoint(a).Drain(w.now, llmlb.DrainOrder{})
		}, "draining", None},
		{"fails its checks, and traffic too", func(w *world, a string) {
			w.checked(a, llmlb.CheckFailed)
			w.failed(a)
		}, "failing its checks", None},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, addresses(3)...)
			first := addresses(3)[0]
			tc.makes(w, first)
			w.now = w.now.Add(time.Second)
			for i := range 50 {
				if c := w.grant(prompt(part{fmt.Sprint("user ", i), 600})); where(c) == first {
					t.Fatalf("call %d went there", i)
				}
			}
			if why := w.barredAs(first); why != tc.why {
				t.Errorf("explained as %q, want %q", why, tc.why)
			}
			alone := newWorld(t, first)
			tc.makes(alone, first)
			alone.now = alone.now.Add(time.Second)
			c := alone.call(prompt(part{"user", 600}))
			if v := Grant(c, alone.now); v != tc.alone {
				t.Errorf("verdict %v where there is no other, want %v", v, tc.alone)
			}
			room, usable := Room(alone.endpoint(first), alone.now)
			if served := tc.alone == Granted; room != served || usable != served {
				t.Errorf("room %v, usable %v for those who wait", room, usable)
			}
		})
	}
}

// When checks have taken out all endpoints, those are used whose real traffic does
// not fail, unless the operator wants requests refused. One that comes back gets
// everything.
func TestAllOut(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		t.Run(fmt.Sprint("refuse ", refuse), func(t *testing.T) {
			list := addresses(3)
			w := newWorld(t, list...)
			w.settings.Checks.Refuse = refuse
			w.scrapeAll(0, 0, 0)
			for _, a := range list {
				w.checked(a, llmlb.CheckFailed)
			}
			w.failed(list[2])
			w.now = w.now.Add(100 * time.Millisecond)
			got := map[string]int{}
			for i := range 40 {
				c := w.call(prompt(part{fmt.Sprint("user ", i), 600}))
				if v := Grant(c, w.now); v == Granted {
					got[where(c)]++
				} else if v != None {
					t.Fatalf("verdict %v", v)
				}
			}
			want := 20
			if refuse {
				want = 0
			}
			if got[list[2]] != 0 || got[list[0]]+got[list[1]] != 2*want || got[list[0]] < want/2 {
				t.Errorf("calls went %v", got)
			}
			if saturation := Saturation(w.pool, w.now); refuse != (saturation == 1) {
				t.Errorf("saturation %v: background work must go on as long as anything does", saturation)
			}
			w.checked(list[2], llmlb.CheckPassed)
			for i := range 10 {
				if c := w.grant(prompt(part{fmt.Sprint("later ", i), 600})); where(c) != list[2] {
					t.Errorf("went to %s, which is out, and one is back", where(c))
				}
			}
		})
	}
}

// Nothing goes to an endpoint that is out as long as one is well: not when that one
// is full, pauses, or has just failed the very request.
func TestOutStaysOutWhileOneIsWell(t *testing.T) {
	list := addresses(2)
	well, out := list[0], list[1]
	for _, tc := range []struct {
		name  string
		makes func(w *world, c *llmlb.Call)
		want  Verdict
	}{
		{"full", func(w *world, _ *llmlb.Call) {
			w.settings.Members[0].MaxConcurrent = 1
			w.occupy(well, 1)
		}, Full},
		{"pauses", func(w *world, _ *llmlb.Call) { w.endpoint(well).NoteOverload(w.now, time.Second) }, Overloaded},
		{"has failed the request", func(w *world, c *llmlb.Call) { c.Exclude(w.endpoint(well)) }, None},
		{"over kv_limit", func(w *world, _ *llmlb.Call) { w.scrape(well, 1, 0, 0.99) }, Granted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, list...)
			w.checked(out, llmlb.CheckFailed)
			c := w.call(prompt(part{"user", 600}))
			tc.makes(w, c)
			if v := Grant(c, w.now); v != tc.want || v == Granted && where(c) != well {
				t.Errorf("verdict %v, want %v", v, tc.want)
			}
		})
	}
}

// The only server of a model is used although checks have taken it out, whatever
// becomes of those of other models.
func TestTheOnlyServerOfAModelIsOut(t *testing.T) {
	list := addresses(2)
	w := newWorld(t, list...)
	w.models(list[0], llmlb.Model{ID: "large"})
	w.models(list[1], llmlb.Model{ID: "small"})
	w.checked(list[0], llmlb.CheckFailed)
	f := prompt(part{"user", 600})
	f.Model = "large"
	if c := w.grant(f); where(c) != list[0] {
		t.Errorf("went to %s", where(c))
	}
	if room, usable := Room(w.endpoint(list[0]), w.now); !room || usable {
		t.Errorf("room %v, usable %v; want it to be asked, and nobody to stand in its line", room, usable)
	}
}

// trialDue has the endpoint's circuit open, and its time for a trial come.
func (w *world) trialDue(address string) {
	w.t.Helper()
	w.settings.Circuit = llmlb.Circuit{Failures: 1, OpenFor: time.Second}
	w.failed(address)
	w.now = w.now.Add(2 * time.Minute) // what failed is no longer fresh
	w.pool.Lock()
	_, due := w.endpoint(address).TrialDue(w.now)
	w.pool.Unlock()
	if !due {
		w.t.Fatal("no trial is due, so that this shows nothing")
	}
}

// What checks have taken out gets no trial: they tell when it is back. When all are
// out it is one of those that serve.
func TestNoTrialForWhatIsOut(t *testing.T) {
	list := addresses(3)
	w := newWorld(t, list...)
	w.trialDue(list[0])
	w.checked(list[0], llmlb.CheckFailed)
	for i := range 20 {
		if c := w.grant(prompt(part{fmt.Sprint("user ", i), 600})); where(c) == list[0] {
			t.Fatalf("call %d went there", i)
		}
	}
	w = newWorld(t, list...)
	w.trialDue(list[0])
	for _, a := range list {
		w.checked(a, llmlb.CheckFailed)
	}
	for i := range 20 {
		if c := w.grant(prompt(part{fmt.Sprint("user ", i), 600})); c.Decision.Reason == llmlb.ReasonTrial {
			t.Fatalf("call %d was a trial", i)
		}
	}
}

// Whatever states the endpoints of a pool are in: nothing goes to one that drains
// or is not ready, nothing to one that is out while another is well, and nothing
// is refused that a well one could take.
func TestNeverToWhatMustGetNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 11))
	for round := range 400 {
		n := 1 + rng.IntN(5)
		list := addresses(n)
		w := newWorld(t, list...)
		w.settings.Checks.Refuse = rng.IntN(2) == 0
		w.settings.Checks.WarmUp = llmlb.DefaultWarmUp
		w.settings.Strategy = Strategies()[rng.IntN(len(Strategies()))]
		w.now = w.now.Add(time.Minute)
		states := make([]string, n)
		for i, a := range list {
			states[i] = []string{"well", "well", "warm", "draining", "starting", "out", "failing", "full"}[rng.IntN(8)]
			switch states[i] {
			case "warm":
				w.checked(a, llmlb.CheckFailed)
				w.checked(a, llmlb.CheckPassed)
			case "draining":
				w.endpoint(a).Drain(w.now, llmlb.DrainOrder{})
			case "starting":
				w.checked(a, llmlb.CheckLoading)
			case "out", "failing":
				w.checked(a, llmlb.CheckFailed)
			case "full":
				w.settings.Members[i].MaxConcurrent = 1
				w.occupy(a, 1)
			}
			if states[i] == "failing" {
				w.failed(a)
			}
		}
		w.now = w.now.Add(10 * time.Millisecond)
		has := func(s ...string) bool {
			return slices.ContainsFunc(states, func(x string) bool { return slices.Contains(s, x) })
		}
		for i := range 10 {
			c := w.call(prompt(part{fmt.Sprint(round, " user ", i), 600}))
			v, at := Grant(c, w.now), "nowhere"
			if v == Granted {
				at = states[slices.Index(list, where(c))]
			}
			switch {
			case has("well", "warm"):
				if at != "well" && at != "warm" {
					t.Fatalf("of %v: %s (%v)", states, at, v)
				}
			case has("full"):
				if v != Full {
					t.Fatalf("of %v: %s (%v), want to wait for the full one", states, at, v)
				}
			case has("out") && !w.settings.Checks.Refuse:
				if at != "out" {
					t.Fatalf("of %v: %s (%v)", states, at, v)
				}
			case v != None:
				t.Fatalf("of %v: %s (%v), refuse %v", states, at, v, w.settings.Checks.Refuse)
			}
		}
	}
}
