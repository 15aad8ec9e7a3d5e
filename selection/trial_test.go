package selection

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var usualCircuit = llmlb.Circuit{
	Failures: llmlb.DefaultCircuitFailures, Rate: llmlb.DefaultCircuitRate, OpenFor: llmlb.DefaultCircuitOpenFor,
}

// broken is a pool of n whose first endpoint has just had its circuit opened.
func broken(t *testing.T, n int) *world {
	t.Helper()
	w := newWorld(t, addresses(n)...)
	w.settings.Circuit = usualCircuit
	w.settings.Retries = 2
	w.breakDown(addresses(n)[0])
	return w
}

// breakDown opens the endpoint's circuit.
func (w *world) breakDown(address string) {
	w.t.Helper()
	w.only(address)
	for i := range llmlb.DefaultCircuitFailures {
		c := w.grant(prompt(part{fmt.Sprint("failing ", i), 100}))
		c.EndAttempt(w.now, llmlb.EngineError)
	}
	all := make([]string, 0, len(w.settings.Members))
	for _, m := range w.settings.Members {
		all = append(all, m.Address)
	}
	w.only(all...)
}

// distinct is a prompt that nobody holds.
func distinct(i int) llmlb.Features { return prompt(part{fmt.Sprint("distinct ", i), 300}) }

// A server whose circuit is open gets nothing. When its time has come it gets one
// request, however idle the others are and however often it has failed, and no
// second one before that has ended.
func TestAnOpenCircuitGetsOneTrial(t *testing.T) {
	w := broken(t, 3)
	a := addresses(3)[0]
	send := func(i int) (*llmlb.Call, bool) {
		c := w.grant(distinct(i))
		return c, where(c) == a
	}
	for i := range 50 {
		c, there := send(i)
		if there {
			t.Fatalf("request %d is at the server whose circuit is open", i)
		}
		c.EndAttempt(w.now, llmlb.Served)
		w.now = w.now.Add(199 * time.Millisecond)
	}
	w.now = w.now.Add(50 * time.Millisecond)
	trial, there := send(100)
	if !there || trial.Decision.Reason != llmlb.ReasonTrial {
		t.Fatalf("the next request is no trial: at %s, %v", where(trial), trial.Decision.Reason)
	}
	for i := range 20 {
		c, there := send(200 + i)
		if there {
			t.Fatal("another is sent beside the trial")
		}
		c.EndAttempt(w.now, llmlb.Served)
	}
	trial.EndAttempt(w.now, llmlb.ClientGone)
	trial, there = send(300)
	if !there {
		t.Error("after a trial that told nothing no other is made")
	}
	trial.EndAttempt(w.now, llmlb.Served)
	w.now = w.now.Add(time.Minute) // its failures fade
	got := 0
	for i := range 60 {
		c, there := send(400 + i)
		if there {
			got++
		}
		c.EndAttempt(w.now, llmlb.Served)
	}
	if got < 10 {
		t.Errorf("after a trial that was served it gets %d of 60", got)
	}
}

// However many requests come in the same moment.
func TestOneTrialOfManySimultaneousRequests(t *testing.T) {
	w := broken(t, 2)
	a := addresses(2)[0]
	w.now = w.now.Add(10 * time.Second)
	var trials atomic.Int32
	var done sync.WaitGroup
	for i := range 100 {
		done.Go(func() {
			c := w.call(distinct(i))
			if Grant(c, w.now) == Granted && where(c) == a {
				trials.Add(1)
			}
		})
	}
	done.Wait()
	if n := trials.Load(); n != 1 {
		t.Errorf("%d requests went to the server on trial, want 1", n)
	}
}

// A trial costs the request least that it may have to be sent again.
func TestWhoIsTheTrial(t *testing.T) {
	a, b := addresses(2)[0], addresses(2)[1]
	hot := prompt(part{"preamble", 4000}, part{"question", 10})
	for _, tc := range []struct {
		name string
		due  time.Duration // for how long
		set  func(w *world, c *llmlb.Call)
		at   string
	}{
		{"a cold request", 0, func(*world, *llmlb.Call) {}, a},
		{"its second attempt", 0, func(_ *world, c *llmlb.Call) { c.Attempts = 1 }, a},
		{"its last attempt", 0, func(_ *world, c *llmlb.Call) { c.Attempts = 2 }, b},
		{"its last attempt, and nobody else", 0, func(w *world, c *llmlb.Call) {
			c.Attempts = 2
			c.Exclude(w.endpoint(b))
		}, a},
		{"one that is warm elsewhere", 4 * time.Second, func(_ *world, c *llmlb.Call) { c.Features = hot }, b},
		{"one that is warm elsewhere, when no other came", 6 * time.Second, func(_ *world, c *llmlb.Call) { c.Features = hot }, a},
		{"a list of models", time.Minute, func(_ *world, c *llmlb.Call) { c.Features = llmlb.Features{} }, b},
		{"one that the server may not have", 0, func(w *world, _ *llmlb.Call) {
			w.settings.Zone, w.settings.Members[0].Zone, w.settings.Members[1].Zone = "eu", "us", "eu"
		}, b},
		{"one that it failed", 0, func(w *world, c *llmlb.Call) { c.Exclude(w.endpoint(a)) }, b},
		{"overloaded, too", 0, func(w *world, _ *llmlb.Call) { w.busy(a, time.Second) }, b},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := broken(t, 2)
			w.now = w.now.Add(10 * time.Second)
			w.only(b)
			w.serve(hot)
			w.only(a, b)
			w.now = w.now.Add(tc.due)
			c := w.call(distinct(1))
			tc.set(w, c)
			if v := Grant(c, w.now); v != Granted || where(c) != tc.at {
				t.Fatalf("verdict %v, at %v, want %s", v, c.Lease, tc.at)
			}
		})
	}
}

// Without retries nobody is sent to a server to see: what is due for its trial
// stands among the others, and gets one when its failures have faded.
func TestTrialsWithoutRetries(t *testing.T) {
	w := broken(t, 2)
	w.settings.Retries = 0
	a := addresses(2)[0]
	w.now = w.now.Add(10 * time.Second)
	if c := w.grant(distinct(0)); c.Decision.Reason == llmlb.ReasonTrial {
		t.Error("sent to see, without a second attempt")
	}
	for i := range 200 {
		c := w.grant(distinct(i))
		if where(c) == a {
			return
		}
		c.EndAttempt(w.now, llmlb.Served)
		w.now = w.now.Add(time.Second)
	}
	t.Error("no trial in 200 requests")
}

// A server that could not be reached, and that nothing is scraped from, is tried
// in the same way.
func TestATrialOfTheConnection(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	a := addresses(2)[0]
	w.refuse(a)
	if c := w.grant(distinct(0)); where(c) == a {
		t.Fatal("sent to a server that is down")
	}
	w.now = w.now.Add(time.Second)
	c := w.grant(distinct(1))
	if where(c) != a || c.Decision.Reason != llmlb.ReasonTrial {
		t.Fatalf("at %s, %v; want the trial", where(c), c.Decision.Reason)
	}
	if c := w.grant(distinct(2)); where(c) == a {
		t.Error("a second trial at once")
	}
}

// When every circuit is open the pool serves what it can: to refuse all would be
// worse.
func TestAllCircuitsOpen(t *testing.T) {
	w := broken(t, 2)
	w.breakDown(addresses(2)[1])
	got := map[string]int{}
	for i := range 20 {
		got[where(w.grant(distinct(i)))]++
	}
	w.within(got, 1, 19)
	// The first that serves is back, for all that are sent after.
	c := w.grant(distinct(30))
	at := where(c)
	c.EndAttempt(w.now, llmlb.Served)
	for i := range 5 {
		if c := w.grant(distinct(40 + i)); where(c) != at {
			t.Errorf("sent to %s, whose circuit is open", where(c))
		}
	}
}

// A server fails every request at once, so that it always looks idle, while its
// metrics page is fine.
func TestAServerThatFailsAtOnceDoesNotDrawTheTraffic(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	w.settings.Circuit, w.settings.Retries = usualCircuit, 1
	bad := addresses(2)[0]
	type sent struct {
		c   *llmlb.Call
		end time.Time
	}
	var open []sent
	failed := 0
	for i := range 3000 { // a minute
		for len(open) > 0 && !open[0].end.After(w.now) {
			open[0].c.SawFirstToken(open[0].end)
			open[0].c.EndAttempt(open[0].end, llmlb.Served)
			open = open[1:]
		}
		w.scrape(bad, 0, 0, 0)
		w.endpoint(bad).Reached(w.now)
		c := w.grant(distinct(i))
		if where(c) == bad {
			failed++
			c.EndAttempt(w.now, llmlb.EngineError)
		} else {
			open = append(open, sent{c, w.now.Add(100 * time.Millisecond)})
		}
		w.now = w.now.Add(20 * time.Millisecond)
	}
	// Five to open, and trials after 10 s and 20 s more.
	if failed < 6 || failed > 8 {
		t.Errorf("%d of 3000 failed", failed)
	}
}

// The explanation says what stood against a server.
func TestExplainOverloadAndCircuits(t *testing.T) {
	w := broken(t, 4)
	list := addresses(4)
	w.busy(list[1], time.Second)
	w.refuse(list[2])
	w.grant(distinct(1))
	reasons := map[string]string{}
	for _, c := range w.pool.Explain()[0].Candidates {
		for _, m := range w.settings.Members {
			if m.Name == c.Endpoint {
				reasons[m.Address] = c.Barred
			}
		}
	}
	want := map[string]string{list[0]: "circuit open", list[1]: "overloaded", list[2]: "down", list[3]: ""}
	for address, reason := range want {
		if reasons[address] != reason {
			t.Errorf("%s: %q, want %q", address, reasons[address], reason)
		}
	}
}
