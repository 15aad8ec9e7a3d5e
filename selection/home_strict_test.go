package selection

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// crowded is a pool of three that other gateways keep busy, the last one more than
// the others: many requests of theirs run there, and some wait.
func crowded(t *testing.T, waiting float64) *world {
	w := newWorld(t, addresses(3)...)
	for range 40 {
		w.crowd(waiting)
	}
	return w
}

// crowd has all be scraped a second later.
func (w *world) crowd(waiting float64) {
	w.now = w.now.Add(time.Second)
	for i, a := range addresses(3) {
		w.scrape(a, 10, float64(i/2)*waiting, 0.2)
	}
}

// atHome returns prompts whose conversations are at home at the address.
func (w *world) atHome(address string, tokens int) func() llmlb.Features {
	n := 0
	return func() llmlb.Features {
		for ; ; n++ {
			p := prompt(part{fmt.Sprint("conversation ", n), tokens})
			home := w.settings.Members[0].Endpoint
			for _, m := range w.settings.Members {
				if rendezvous(p.Key, m.Endpoint) > rendezvous(p.Key, home) {
					home = m.Endpoint
				}
			}
			if home.Address() == address {
				n++
				return p
			}
		}
	}
}

// found has an engine say, for many requests, how much of their prompts it had in
// its cache although we did not know.
func (w *world) found(share float64) {
	for i := range 600 {
		c := w.call(prompt(part{fmt.Sprint("earlier ", share, i), 1000}))
		c.SentHome = true
		w.pool.Lock()
		c.Lease = w.pool.Reserve(w.settings.Members[i%3].Endpoint, w.now, llmlb.Work{Uncached: 1, Output: 1})
		w.pool.Unlock()
		c.PromptTokens, c.CachedTokens, c.OutputTokens = 1000, int(1000*share), 1
		c.EndAttempt(w.now, llmlb.Served)
	}
}

// Where nearly all of the work is other gateways', and engines turn out to hold what
// they have computed for those, a conversation that is new to us goes to its home,
// although others wait there. It does not when homes have not paid, when the prompt
// is too short to save much, and when the wait is beyond what it could save.
func TestConversationsGoHomeWhereOtherGatewaysSendThem(t *testing.T) {
	for _, tc := range []struct {
		name    string
		share   float64
		tokens  int
		waiting float64
		home    bool
	}{
		{"homes pay", 0.9, 4000, 2, true},
		{"homes do not pay", 0, 4000, 2, false},
		{"a short prompt", 0.9, 40, 2, false},
		{"a long wait", 0.9, 4000, 400, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := crowded(t, tc.waiting)
			w.found(tc.share)
			busy := addresses(3)[2]
			next := w.atHome(busy, tc.tokens)
			at := 0
			for range 20 {
				c := w.grant(next())
				if where(c) == busy {
					at++
				}
				c.EndAttempt(w.now, llmlb.ClientGone)
				if d := c.Decision.Reason; d != llmlb.ReasonCold {
					t.Fatalf("decision %v, want cold", d)
				}
				w.crowd(tc.waiting)
			}
			if tc.home && at < 18 || !tc.home && at > 2 {
				t.Errorf("%d of 20 went to their busy home, want home: %v", at, tc.home)
			}
		})
	}
}

// What all servers hold, such as a system prompt, says nothing of where a
// conversation belongs: its home does.
func TestWhatAllServersHoldTellsNoConversation(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	system := part{"system, which all share", 1000}
	for _, a := range addresses(3) {
		w.only(a)
		w.serve(prompt(system, part{"warming " + a, 20}))
	}
	w.only(addresses(3)...)
	w.scrapeAll(0, 0, 0)
	used := map[string]int{}
	for i := range 60 {
		w.now = w.now.Add(time.Minute)
		w.scrapeAll(0, 0, 0)
		a, d := w.serve(prompt(system, part{fmt.Sprint("user ", i), 30}))
		if d.Reason != llmlb.ReasonCold {
			t.Fatalf("conversation %d: %v, want cold: nobody holds more than others", i, d.Reason)
		}
		used[a]++
	}
	w.within(used, 10, 30)
}
