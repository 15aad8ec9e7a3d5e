package selection

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The worked example of the documentation: four servers, one of them draining,
// and a prompt whose preamble of 2,000 tokens is warm on the busiest.
func TestTheWorkedExample(t *testing.T) {
	const s11, s12, s13, s14 = "10.4.0.11:8000", "10.4.0.12:8000", "10.4.0.13:8000", "10.4.0.14:8000"
	for _, tc := range []struct {
		strategy string
		reason   llmlb.Reason
	}{
		{StrategyPrefixSpill, llmlb.ReasonSpillWaiting},
		{StrategyWork, llmlb.ReasonSpillLoad},
	} {
		t.Run(tc.strategy, func(t *testing.T) {
			w := newWorld(t, s11, s12, s13, s14)
			w.settings.Strategy = tc.strategy
			w.settings.Scrape.Interval = 2 * time.Second
			if tc.strategy == StrategyPrefixSpill {
				w.settings.SpillWaiting = llmlb.DefaultSpillWaiting
				w.settings.SpillTTFT = llmlb.DefaultSpillTTFT
			}
			preamble := part{"the preamble", 2000}

			// It was computed on .12 while nothing else was up.
			w.only(s12)
			w.serve(prompt(preamble, part{"an earlier question", 30}))
			w.only(s11, s12, s13)
			w.scrapeAll(0, 0, 0) // which saw our own call; the next will not

			w.now = w.now.Add(time.Second)
			w.scrape(s11, 14, 0, 0.61)
			w.scrape(s12, 16, 3, 0.88)
			w.scrape(s13, 9, 0, 0.44)
			w.scrape(s14, 0, 0, 0.03)
			w.endpoint(s11).ObserveTTFT(w.now, 240*time.Millisecond)
			w.endpoint(s12).ObserveTTFT(w.now, 910*time.Millisecond)
			w.endpoint(s13).ObserveTTFT(w.now, 180*time.Millisecond)

			c := w.grant(prompt(preamble, part{"a question", 40}))
			if where(c) != s13 || c.Decision.Reason != tc.reason {
				t.Fatalf("went to %s (%v), want %s (%v)", where(c), c.Decision.Reason, s13, tc.reason)
			}
			if d := c.Decision; d.Warm != 1 || d.Matched != 0 || d.Best < 1750 || d.Best > 2000 {
				t.Errorf("decision %+v, want one warm endpoint, nothing matched at .13, and a best match of 2,000 less a part of a block", d)
			}
			w.now = w.now.Add(180 * time.Millisecond)
			c.SawFirstToken(w.now)

			next := w.grant(prompt(preamble, part{"another question", 40}))
			if next.Decision.Warm != 2 {
				t.Errorf("%d warm candidates for the next call, want 2", next.Decision.Warm)
			}
			if where(next) != s13 || next.Decision.Reason != llmlb.ReasonWarm {
				t.Errorf("the next went to %s (%v), want %s (warm)", where(next), next.Decision.Reason, s13)
			}
			for i := range 40 {
				c := w.grant(prompt(part{string(rune('a' + i)), 100}))
				if where(c) == s14 {
					t.Fatal("the draining server got a call")
				}
			}
		})
	}
}

// One case for each clause of the spill rule. The first server is warm.
func TestPrefixSpillRule(t *testing.T) {
	type numbers struct {
		running, waiting float64
		ttft             int // ms
	}
	for _, tc := range []struct {
		name    string
		servers []numbers
		want    int
		reason  llmlb.Reason
	}{
		{"below both thresholds it stays, however idle others are", []numbers{{10, 2, 400}, {0, 0, 50}}, 0, llmlb.ReasonWarm},
		{"at the waiting threshold it goes", []numbers{{10, 3, 400}, {5, 0, 50}}, 1, llmlb.ReasonSpillWaiting},
		{"at the latency threshold it stays", []numbers{{10, 2, 500}, {5, 0, 50}}, 0, llmlb.ReasonWarm},
		{"past the latency threshold it goes", []numbers{{10, 2, 501}, {5, 0, 50}}, 1, llmlb.ReasonSpillTTFT},
		{"not to one that is predicted slower", []numbers{{10, 3, 900}, {20, 9, 100}}, 0, llmlb.ReasonWarm},
		{"least waiting decides", []numbers{{10, 9, 900}, {5, 1, 50}, {5, 0, 400}}, 2, llmlb.ReasonSpillWaiting},
		{"on ties the lowest latency", []numbers{{10, 9, 900}, {5, 0, 90}, {20, 0, 50}}, 2, llmlb.ReasonSpillWaiting},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := addresses(len(tc.servers))
			w := newWorld(t, list...)
			w.settings.Strategy = StrategyPrefixSpill
			w.settings.SpillWaiting, w.settings.SpillTTFT = llmlb.DefaultSpillWaiting, llmlb.DefaultSpillTTFT
			preamble := part{"preamble", 1000}
			w.only(list[0])
			w.serve(prompt(preamble))
			w.only(list...)
			w.scrapeAll(0, 0, 0)
			for i, n := range tc.servers {
				w.scrape(list[i], n.running, n.waiting, 0.2)
				w.endpoint(list[i]).ObserveTTFT(w.now, time.Duration(n.ttft)*time.Millisecond)
			}
			c := w.grant(prompt(preamble, part{"question", 50}))
			if where(c) != list[tc.want] || c.Decision.Reason != tc.reason {
				t.Errorf("went to %s (%v), want %s (%v)", where(c), c.Decision.Reason, list[tc.want], tc.reason)
			}
		})
	}
}

// In work the thresholds are off unless set, and an order when they are.
func TestWorkHonoursThresholdsThatAreSet(t *testing.T) {
	list := addresses(2)
	preamble := part{"preamble", 8000}
	send := func(waiting float64, ttft time.Duration) *llmlb.Call {
		w := newWorld(t, list...)
		w.settings.SpillWaiting, w.settings.SpillTTFT = waiting, ttft
		w.only(list[0])
		w.serve(prompt(preamble))
		w.only(list...)
		w.scrapeAll(0, 0, 0)
		w.scrape(list[0], 5, 1, 0.2)
		w.scrape(list[1], 5, 0, 0.2)
		w.endpoint(list[0]).ObserveTTFT(w.now, 300*time.Millisecond)
		return w.grant(prompt(preamble, part{"question", 50}))
	}
	for _, tc := range []struct {
		name    string
		waiting float64
		ttft    time.Duration
		want    string
		reason  llmlb.Reason
	}{
		{"off", 0, 0, list[0], llmlb.ReasonWarm},
		{"waiting", 1, 0, list[1], llmlb.ReasonSpillWaiting},
		{"ttft", 0, 200 * time.Millisecond, list[1], llmlb.ReasonSpillTTFT},
		{"not reached", 2, time.Second, list[0], llmlb.ReasonWarm},
	} {
		if c := send(tc.waiting, tc.ttft); where(c) != tc.want || c.Decision.Reason != tc.reason {
			t.Errorf("%s: went to %s (%v), want %s (%v)", tc.name, where(c), c.Decision.Reason, tc.want, tc.reason)
		}
	}
}
