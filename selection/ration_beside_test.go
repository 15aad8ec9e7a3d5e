package selection

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// busyWith gives the endpoint a prompt that takes it a while to compute: it has no
// room until then.
func (w *world) busyWith(address string, tokens int) *llmlb.Call {
	w.t.Helper()
	c := w.call(prompt(part{"long " + address, tokens}))
	c.Stream = true
	w.pool.Lock()
	c.Lease = w.pool.Reserve(w.endpoint(address), w.now, llmlb.Work{Uncached: tokens, Output: 100})
	w.pool.Unlock()
	c.Begin(c.Lease.Endpoint(), w.now)
	return c
}

// Nobody waits beside a server that warms up where nobody else takes anything: those
// at their limit, or in a pause that they have asked for, may be so for as long as the
// warm-up lasts.
func TestNobodyElseTakesAnythingWhileAServerWarmsUp(t *testing.T) {
	for name, bar := range map[string]func(*world){
		"at max_concurrent": func(w *world) {
			w.settings.Members[0].MaxConcurrent = 2
			w.occupy("a:1", 2)
		},
		"in a pause": func(w *world) { w.endpoint("a:1").NoteOverload(w.now, time.Minute) },
		"over kv_limit": func(w *world) {
			w.scrape("a:1", 1, 0, 0.99)
			w.scrape("b:1", 0, 0, 0)
		},
		"in another zone": func(w *world) { w.settings.Zone, w.settings.Members[0].Zone = "here", "there" },
	} {
		for _, strategy := range Strategies() {
			t.Run(name+", "+strategy, func(t *testing.T) {
				w := newWorld(t, "a:1", "b:1")
				w.settings.Strategy, w.settings.Scorers = strategy, DefaultScorers()
				w.now = w.now.Add(time.Minute)
				w.returning("b:1")
				bar(w)
				if got := w.open(20, 100*time.Millisecond, waiting); got["b:1"] != 20 {
					t.Errorf("of 20 calls in two seconds %v got a place", got)
				}
			})
		}
	}
}

// Nor do all rush there then: it gets a few until it shows that it works, also of
// those whose answers come whole and show nothing before they end.
func TestNoHerdToTheOnlyOneThatTakesAnything(t *testing.T) {
	for _, whole := range []bool{false, true} {
		w := newWorld(t, "a:1", "b:1")
		w.now = w.now.Add(time.Minute)
		w.returning("b:1")
		w.endpoint("a:1").NoteOverload(w.now, time.Minute)
		if got := w.placed(100, 600, whole); got != mostBlind {
			t.Errorf("whole %v: %d calls are there before the first has shown anything, want %d", whole, got, mostBlind)
		}
	}
}

// Whoever can wait does, beside a server that has its share, for one that has
// prompts to compute; whoever cannot does not, nor who has waited for as long as it
// may.
func TestWhoWaitsBesideAServerThatHasItsShare(t *testing.T) {
	for _, delegated := range []bool{false, true} {
		w := newWorld(t, "a:1", "b:1")
		w.now = w.now.Add(time.Minute)
		w.busyWith("a:1", 50_000)
		w.returning("b:1")
		w.occupy("b:1", 1)
		w.settings.Delegated = delegated
		f := prompt(part{"user", 600})
		c := w.call(f)
		if v := waiting(c, w.now); v != Busy || !c.Held {
			t.Errorf("verdict %v, held %v: it is to wait, and b has room for it", v, c.Held)
		}
		if room, usable := Room(w.endpoint("b:1"), w.now); !room || !usable {
			t.Errorf("room %v, usable %v: those who wait must be asked, in case they have no other", room, usable)
		}
		c.Last = true
		switch v := waiting(c, w.now); {
		case delegated && v != Later, !delegated && (v != Granted || where(c) != "b:1"):
			t.Errorf("verdict %v for one that has no time left, want b", v)
		case c.Held:
			t.Error("it counts as held back")
		}
		if delegated {
			continue
		}
		w.settings.Members[0].MaxConcurrent = 1
		if got := w.open(20, 0, Grant); got["b:1"] != 20 {
			t.Errorf("%v of those who cannot wait got a place, want all at b", got)
		}
		w.settings.Members[0].MaxConcurrent = 0
		c = w.call(f)
		c.Exclude(w.endpoint("a:1"))
		if v := waiting(c, w.now); v != Granted || where(c) != "b:1" {
			t.Errorf("verdict %v for one that a has failed, want b", v)
		}
	}
}

// A server that warms up is spared while it has no room, also from those who have no
// time left.
func TestTheLastTryNeedsRoom(t *testing.T) {
	w := newWorld(t, "a:1", "b:1")
	w.now = w.now.Add(time.Minute)
	w.busyWith("a:1", 50_000)
	w.returning("b:1")
	w.busyWith("b:1", 50_000)
	c := w.call(prompt(part{"user", 600}))
	c.Last = true
	if v := waiting(c, w.now); v != Busy || c.Held {
		t.Errorf("verdict %v, held %v, though nobody has room", v, c.Held)
	}
}

// Servers of other models are nobody to measure a share by: the only one of a model
// gets all that is asked of it, be the others idle, busy or full.
func TestTheOnlyServerOfAModelBesideOthers(t *testing.T) {
	for name, others := range map[string]func(*world){
		"idle": func(*world) {},
		"busy": func(w *world) { w.busyWith("a:1", 50_000) },
		"full": func(w *world) {
			w.settings.Members[0].MaxConcurrent = 1
			w.occupy("a:1", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a:1", "b:1")
			w.now = w.now.Add(time.Minute)
			w.models("a:1", llmlb.Model{ID: "large"})
			w.models("b:1", llmlb.Model{ID: "small"})
			w.returning("b:1")
			others(w)
			for i := range 10 {
				f := prompt(part{fmt.Sprint("user ", i), 600})
				f.Model = "small"
				c := w.call(f)
				if v := waiting(c, w.now); v != Granted || where(c) != "b:1" {
					t.Fatalf("call %d: verdict %v", i, v)
				}
				c.Begin(c.Lease.Endpoint(), w.now)
			}
		})
	}
}
