package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
)

// single is a configuration of servers that take one call each.
func single(generation string, names ...string) *llmlb.Settings {
	s := &llmlb.Settings{
		Pool: "test", Strategy: selection.StrategyWork, Affinity: llmlb.DefaultAffinity, MinTokens: llmlb.DefaultMinTokens,
		KVLimit: llmlb.DefaultKVLimit, Retries: 2, Fingerprint: generation, Reach: generation,
		Scrape: llmlb.Scrape{Interval: llmlb.DefaultInterval, StaleAfter: llmlb.DefaultStaleAfter},
	}
	for _, name := range names {
		s.Members = append(s.Members, llmlb.Member{Address: name + ":8000", Name: name, MaxConcurrent: 1})
	}
	return s
}

// load makes the configuration the pool's.
func load(t *testing.T, p *llmlb.Pool, s *llmlb.Settings) *llmlb.Settings {
	t.Helper()
	if err := p.Bind(s); err != nil {
		t.Fatal(err)
	}
	p.Start(s, time.Now())
	return s
}

// asks has a call ask for its turn.
func asks(p *llmlb.Pool, s *llmlb.Settings, model string) (c *llmlb.Call, placed chan struct{}) {
	c, placed = llmlb.NewCall(p, s, time.Now()), make(chan struct{})
	c.Features = llmlb.Features{API: "chat", InputTokens: 100, PromptBytes: 400, Model: model}
	w := &queue.Waiter{
		Call: c, Class: &queue.Class{Name: "interactive", MaxWait: time.Minute}, Kind: selection.Kind(c),
		Ready: func() { close(placed) },
	}
	t := turnsOf(p)
	t.queue.Push(w, queue.Bounds{Calls: 100}, time.Now())
	t.arm(false)
	return c, placed
}

// soonPlaced reports whether the call gets its place within a second.
func soonPlaced(placed chan struct{}) bool {
	select {
	case <-placed:
		return true
	case <-time.After(time.Second):
		return false
	}
}

// A server that is added while requests wait takes new ones, though those who
// waited before it came know nothing of it.
func TestAServerThatIsAddedIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmlb.NewPool("test")
		before := load(t, p, single("before", "a"))
		asks(p, before, "m")
		_, old := asks(p, before, "m")
		after := load(t, p, single("after", "a", "b"))
		if _, placed := asks(p, after, "m"); !soonPlaced(placed) {
			t.Error("the added server is idle, and a new request waits")
		}
		if soonPlaced(old) {
			t.Error("a request is at a server that its configuration did not have")
		}
	})
}

// Those who wait under a configuration of which no server is left are still sent
// to its servers.
func TestOldServersServeWhoHasNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmlb.NewPool("test")
		before := load(t, p, single("before", "a"))
		first, _ := asks(p, before, "m")
		_, old := asks(p, before, "m")
		after := load(t, p, single("after", "b"))
		asks(p, after, "m")
		asks(p, after, "m")
		first.Lease.End(time.Now())
		if !soonPlaced(old) {
			t.Error("its server is idle, and the request waits")
		}
	})
}

// An adapter of one model does not wait behind those of another.
func TestAdaptersOfOneModelDoNotBarAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmlb.NewPool("test")
		s := load(t, p, single("", "a", "b"))
		for i, model := range []string{"A", "B"} {
			s.Members[i].Endpoint.ObserveModels(time.Now(), []llmlb.Model{{ID: model}})
		}
		asks(p, s, "A:x")
		_, second := asks(p, s, "A:x")
		if _, placed := asks(p, s, "B:y"); !soonPlaced(placed) {
			t.Error("the server of B is idle, and its adapter waits behind one of A")
		}
		if soonPlaced(second) {
			t.Error("an adapter of A is at the server of B")
		}
	})
}

type fuse struct{ lit bool }

func (f *fuse) Score(*llmlb.Call, *llmlb.View) float64 {
	if f.lit {
		panic("broken scorer")
	}
	return 1
}

// A scorer that panics fails the call that it was asked about, and not the one
// whose end gave that its turn, let alone the process.
func TestABrokenScorerFailsItsOwnCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := llmlb.NewPool("test"), new(fuse)
		s := single("", "a", "b")
		s.Strategy, s.Scorers = selection.StrategyWeighted, []llmlb.WeightedScorer{{Name: "fuse", Weight: 1, Scorer: f}}
		load(t, p, s)
		first, _ := asks(p, s, "m")
		asks(p, s, "m")
		third, placed := asks(p, s, "m")
		f.lit = true
		first.EndAttempt(time.Now(), llmlb.Served)
		if !soonPlaced(placed) || third.Lease != nil {
			t.Error("the call whose scorer is broken waits on")
		}
	})
}

// While servers are exchanged under load, those who wait go to the new ones as
// soon as those are there, and nobody is told that there is no server.
func TestWhoWaitsGoesToAServerThatWasAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmlb.NewPool("test")
		before := load(t, p, single("", "a"))
		asks(p, before, "m")
		waits, placed := asks(p, before, "m")
		after := single("", "a", "b")
		after.Members[0].Drain = true
		load(t, p, after)
		if !soonPlaced(placed) || waits.Lease.Endpoint().Name() != "b" {
			t.Error("the new server is idle, and a request waits for the old one, which drains")
		}
	})
}

// A limit that was raised holds for those who wait already.
func TestARaisedLimitHoldsForWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmlb.NewPool("test")
		before := load(t, p, single("", "a"))
		asks(p, before, "m")
		_, placed := asks(p, before, "m")
		after := single("", "a")
		after.Members[0].MaxConcurrent = 8
		load(t, p, after)
		if !soonPlaced(placed) {
			t.Error("the request waits, though its server may now have eight")
		}
	})
}
