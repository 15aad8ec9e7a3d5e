package selection

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Distinct prompts asked one at a time find all endpoints idle, and only their
// hashes can spread them.
func TestDistinctPromptsOneAtATimeSpreadEvenly(t *testing.T) {
	for _, names := range [][]string{addresses(3), {"a:1", "a:2", "a:3"}} {
		t.Run(names[0], func(t *testing.T) {
			w := newWorld(t, names...)
			w.scrapeAll(0, 0, 0)
			got := map[string]int{}
			for i := range 3000 {
				w.scrapeAll(0, 0, 0)
				a, d := w.serve(prompt(part{fmt.Sprint("question ", i), 40}))
				got[a]++
				if d.Reason != llmlb.ReasonCold {
					t.Fatalf("reason %v, want cold", d.Reason)
				}
			}
			w.within(got, 800, 1200)
		})
	}
}

// Between two scrapes the numbers say that all are idle: what we have sent
// ourselves must count at once.
func TestABurstBetweenTwoScrapesSpreads(t *testing.T) {
	for _, tc := range []struct {
		endpoints, calls, low, high int
		tokens                      int
		scraped                     bool
		streaming                   bool // the first token comes at once
	}{
		{3, 30, 8, 12, 40, true, false},
		{3, 30, 8, 12, 3000, true, false},
		{3, 30, 8, 12, 40, false, false},
		{3, 30, 8, 12, 40, true, true},
		{4, 40, 8, 12, 400, true, false},
		{2, 32, 12, 20, 40, true, false},
		{2, 32, 12, 20, 3000, true, false},
		{2, 32, 12, 20, 1, false, false},
	} {
		t.Run(fmt.Sprintf("%d over %d of %d tokens, scraped %v, streaming %v", tc.calls, tc.endpoints, tc.tokens, tc.scraped, tc.streaming), func(t *testing.T) {
			for seed := range 50 {
				w := newWorld(t, addresses(tc.endpoints)...)
				if tc.scraped {
					w.scrapeAll(0, 0, 0)
				}
				got := map[string]int{}
				for i := range tc.calls {
					c := w.grant(prompt(part{fmt.Sprint(seed, " distinct ", i), tc.tokens}))
					got[where(c)]++
					if tc.streaming {
						c.SawFirstToken(w.now)
					}
				}
				w.within(got, tc.low, tc.high)
			}
		})
	}
}

// One hot prompt must not pile up on the server that has it, and must stay
// there while it is asked for one at a time.
func TestAHotPrefixStaysAtLowRateAndSpreadsInABurst(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	w.scrapeAll(0, 0, 0)
	hot := prompt(part{"the same for all", 1000}, part{"tail", 20})
	home, _ := w.serve(hot)
	for range 20 {
		w.scrapeAll(0, 0, 0)
		if a, d := w.serve(hot); a != home || d.Reason != llmlb.ReasonWarm {
			t.Fatalf("an idle pool answered from %s (%v), want the home %s", a, d.Reason, home)
		}
	}
	w.now = w.now.Add(time.Second)
	w.scrapeAll(0, 0, 0)
	got := map[string]int{}
	for range 60 {
		got[where(w.grant(hot))]++
	}
	w.within(got, 10, 27)
}

// A shared system prompt must not tie all conversations to one server once
// there is load, and the second turn must find the first.
func TestConversationsWithOneSystemPromptSpreadUnderLoadAndKeepTheirHome(t *testing.T) {
	system := part{"system prompt of 12 kB", 3000}
	w := newWorld(t, addresses(3)...)
	w.scrapeAll(0, 0, 0)
	w.serve(prompt(system, part{"somebody before", 50}))

	home := map[int]string{}
	got := map[string]int{}
	var open []*llmlb.Call
	for i := range 30 {
		c := w.grant(prompt(system, part{fmt.Sprint("user ", i), 300}))
		home[i] = where(c)
		got[home[i]]++
		open = append(open, c)
	}
	w.within(got, 5, 15)
	for _, c := range open {
		w.now = w.now.Add(20 * time.Millisecond)
		c.SawFirstToken(w.now)
		c.EndAttempt(w.now, llmlb.Served)
	}
	kept := 0
	for i := range 30 {
		w.scrapeAll(0, 0, 0)
		if a, _ := w.serve(prompt(system, part{fmt.Sprint("user ", i), 300}, part{"answer", 200}, part{"more", 20})); a == home[i] {
			kept++
		}
	}
	if kept < 27 {
		t.Errorf("%d of 30 second turns went where the first went, want at least 27", kept)
	}
}

// A conversation grows at its end, so its key and its blocks keep its home.
func TestAGrowingConversationKeepsItsHome(t *testing.T) {
	for _, strategy := range Strategies() {
		w := newWorld(t, addresses(3)...)
		w.choosing(strategy)
		kept, turns := 0, 0
		for conv := range 20 {
			var parts []part
			home := ""
			for turn := range 6 {
				parts = append(parts, part{fmt.Sprint("conversation ", conv, " turn ", turn), 125})
				w.scrapeAll(0, 0, 0)
				a, _ := w.serve(prompt(parts...))
				if turn == 0 {
					home = a
					continue
				}
				turns++
				if a == home {
					kept++
				}
			}
		}
		if kept*100 < turns*95 {
			t.Errorf("%s: %d of %d turns stayed at home, want 95 %%", strategy, kept, turns)
		}
	}
}

// The same text in the middle of another prompt is in no cache.
func TestOnlyAPrefixMatches(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	w.settings.MinTokens = 64
	a, b := addresses(2)[0], addresses(2)[1]
	x, y := part{"block x", 640}, part{"block y", 640}
	// Which endpoint gets which is made certain by draining the other.
	w.only(a)
	w.serve(prompt(x))
	w.only(b)
	w.serve(prompt(y))
	w.only(a, b)
	w.scrapeAll(0, 0, 0)
	got, d := w.serve(prompt(y, x))
	if got != b || d.Reason != llmlb.ReasonWarm {
		t.Errorf("Y+X went to %s (%v), want %s, which holds Y", got, d.Reason, b)
	}
	if d.Matched < 600 || d.Matched > 640 {
		t.Errorf("matched %d tokens, want the 640 of Y less a part of a block", d.Matched)
	}
}

// only drains all endpoints but those given.
func (w *world) only(up ...string) {
	for i := range w.settings.Members {
		m := &w.settings.Members[i]
		m.Drain = true
		for _, a := range up {
			if a == m.Address {
				m.Drain = false
			}
		}
	}
	w.pool.Stop(w.settings, w.now)
	w.pool.Start(w.settings, w.now)
}

// A slight imbalance must not throw affinity away: with one or two other calls
// in flight at random, turns go where the turn before went.
func TestTurnsStayAtHomeUnderLightLoad(t *testing.T) {
	for _, length := range []int{60, 300, 1000} {
		w := newWorld(t, addresses(3)...)
		r := uint64(1)
		var busy []*llmlb.Call
		kept, turns := 0, 0
		convs := make([][]part, 10)
		home := make([]string, 10)
		for turn := range 8 {
			for conv := range convs {
				w.scrapeAll(0, 0, 0.1)
				for len(busy) < 5 { // somebody else's calls, one or two at each
					r = mix(r + 1)
					c := w.grant(prompt(part{fmt.Sprint("other ", r), 200}))
					c.Lease.FirstToken()
					busy = append(busy, c)
				}
				convs[conv] = append(convs[conv], part{fmt.Sprint("conversation ", conv, " turn ", turn), length})
				a, _ := w.serve(prompt(convs[conv]...))
				if turn > 0 {
					turns++
					if a == home[conv] {
						kept++
					}
				}
				home[conv] = a
				r = mix(r + 1)
				i := int(r % uint64(len(busy)))
				busy[i].EndAttempt(w.now, llmlb.Served)
				busy = append(busy[:i], busy[i+1:]...)
			}
		}
		if kept*100 < turns*80 {
			t.Errorf("turns of %d tokens: %d of %d went where the turn before went, want 80 %%", length, kept, turns)
		}
	}
}
