package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var (
	interactive = &Class{Name: "interactive", MaxWait: 30 * time.Second}
	background  = &Class{Name: "background", Rank: 1, Share: 0.05, MaxWait: 15 * time.Minute}
)

// Interactive requests are served before summaries, however long those wait;
// tenants of a class take turns; a tenant's own are served as they came.
func TestOrder(t *testing.T) {
	s := newSite(t, 0)
	s.waits(
		s.guest("summary 1", background, "a", 100), s.guest("summary 2", background, "a", 100),
		s.guest("a1", interactive, "a", 100), s.guest("a2", interactive, "a", 100), s.guest("a3", interactive, "a", 100),
		s.guest("b1", interactive, "b", 100), s.guest("b2", interactive, "b", 100),
	)
	s.check()
	s.give(s.ends[0], 5)
	s.expect("a1", "b1", "a2", "b2", "a3")
	s.give(s.ends[0], 5)
	s.expect("summary 1", "summary 2")
	s.check()
	if n := s.queue.Len(); n != 0 {
		t.Errorf("%d wait", n)
	}
}

// What finds room and nobody before it goes straight through.
func TestStraightThrough(t *testing.T) {
	s := newSite(t, 1)
	g := s.guest("a", interactive, "a", 100)
	if e := s.push(g); e != Granted || g.ready != 1 || s.queue.Len() != 0 {
		t.Errorf("entry %d, told %d times, %d wait", e, g.ready, s.queue.Len())
	}
	s.waits(s.guest("b", interactive, "b", 100))
	s.end(g)
	s.expect("a", "b")
	s.check()
}

// One that finds no server at all learns so, in place of that all are busy.
func TestAnswer(t *testing.T) {
	s := newSite(t, 0)
	busy := s.guest("busy", interactive, "", 1)
	s.waits(busy)
	s.ends[0].down = true
	nowhere := s.guest("nowhere", interactive, "", 1)
	nowhere.Kind = "other"
	s.waits(nowhere)
	if busy.Answer() != Busy || nowhere.Answer() != Nowhere {
		t.Errorf("answers %d and %d", busy.Answer(), nowhere.Answer())
	}
}

// Requests for a model whose server is busy do not keep others from theirs.
func TestKindsDoNotBlockEachOther(t *testing.T) {
	s := newSite(t, 0, 0)
	s.ends[0].model, s.ends[1].model = "llama", "qwen"
	kind := func(name, model string, c *Class) *guest {
		g := s.guest(name, c, "a", 100)
		g.Kind = model
		return g
	}
	s.waits(kind("l1", "llama", interactive), kind("l2", "llama", interactive), kind("q1", "qwen", background), kind("q2", "qwen", interactive))
	s.give(s.ends[1], 3)
	s.expect("q2", "q1")
	if e := s.push(kind("q3", "qwen", background)); e != Granted {
		t.Errorf("entry %d for the one whose model has room", e)
	}
	s.give(s.ends[0], 1)
	s.expect("q3", "l1")
	s.check()
}

// Hundreds of adapters, all of them waiting for servers that are busy, do not hide
// the one whose server has room, and leave nothing behind.
func TestManyKinds(t *testing.T) {
	s := newSite(t, 0, 0)
	s.ends[0].model, s.ends[1].model = "model 299", "nobody's"
	for i := range 300 {
		g := s.guest(fmt.Sprint(i), interactive, "a", 100)
		g.Kind = fmt.Sprint("model ", i)
		s.waits(g)
	}
	s.check()
	s.give(s.ends[0], 1)
	s.expect("299")
	for _, g := range s.guests {
		s.queue.Remove(&g.Waiter, s.now)
	}
	s.check()
	if len(s.queue.kinds)+len(s.queue.byName)+len(s.queue.warm) > 0 {
		t.Errorf("%d kinds are remembered of an empty queue", len(s.queue.kinds))
	}
}

// A request that comes back, because its server was gone, is the oldest still,
// and its tenant pays for it once.
func TestOneThatComesBack(t *testing.T) {
	s := newSite(t, 1)
	back := s.guest("back", interactive, "a", 100)
	s.push(back)
	s.waits(s.guest("a2", interactive, "a", 100))
	s.ends[0].down = true
	s.ends[0].open, back.at = 0, nil
	s.waits(back)
	s.ends[0].down = false
	s.freed(s.ends[0])
	s.expect("back", "back")
	s.check()
	if c := s.queue.classes[0].tenants["a"].counter; c != 100 {
		t.Errorf("tenant a was charged %v tokens for 100", c)
	}
	s.queue.Settle(&back.Waiter, 70)
	s.queue.Settle(&back.Waiter, 10_000)
	if c := s.queue.classes[0].tenants["a"].counter; c != 70 {
		t.Errorf("after it is settled, tenant a was charged %v for 70", c)
	}
	s.check()
}

// Settling what never was granted, or nothing, changes nothing.
func TestSettleWithoutGrant(t *testing.T) {
	s := newSite(t, 0)
	g := s.guest("a", interactive, "a", 100)
	s.queue.Settle(nil, 5)
	s.queue.Settle(&g.Waiter, 5)
	s.waits(g)
	s.queue.Settle(&g.Waiter, 5)
	s.queue.Remove(&g.Waiter, s.now)
	s.queue.Settle(&g.Waiter, 5)
	if c := s.queue.classes[0].tenants["a"].counter; c != 0 {
		t.Errorf("tenant a was charged %v for nothing", c)
	}
	s.check()
}

// A client that leaves is out at once, wherever it stands. If it was the first,
// and what kept it waiting keeps nobody else, the next one goes.
func TestRemove(t *testing.T) {
	for leaves := range 4 {
		s := newSite(t, 0)
		all := []*guest{}
		for i := range 4 {
			all = append(all, s.guest(fmt.Sprint(i), interactive, "a", 100))
		}
		s.waits(all...)
		if !s.queue.Remove(&all[leaves].Waiter, s.now) || s.queue.Remove(&all[leaves].Waiter, s.now) {
			t.Errorf("the %d. did not leave once", leaves)
		}
		s.check()
		want := []string{}
		for i := range 4 {
			if i != leaves {
				want = append(want, fmt.Sprint(i))
			}
		}
		s.give(s.ends[0], 4)
		s.expect(want...)
		s.check()
	}
}

func TestRemoveOfTheFirstLetsTheNextGo(t *testing.T) {
	s := newSite(t, 1)
	first := s.guest("first", interactive, "a", 100)
	first.Kind = "any"
	s.ends[0].model = "only"
	s.waits(first)
	next := s.guest("next", interactive, "a", 100)
	next.Kind = "any"
	s.waits(next)
	s.ends[0].model = "any" // nobody tells of it
	s.queue.Remove(&first.Waiter, s.now)
	s.expect("next")
	s.check()
}

// One that was granted its place at the moment its client left is told so.
func TestRemoveAfterGrant(t *testing.T) {
	s := newSite(t, 0)
	g := s.guest("a", interactive, "a", 100)
	s.waits(g)
	s.give(s.ends[0], 1)
	if s.queue.Remove(&g.Waiter, s.now) {
		t.Error("it is said to have waited")
	}
	s.expect("a")
}

// A reload that gives a class another rank, and tenants other weights, leaves
// nobody behind.
func TestReload(t *testing.T) {
	s := newSite(t, 0)
	s.waits(
		s.guest("old low", &Class{Name: "batch", Rank: 1}, "a", 100),
		s.guest("old high", &Class{Name: "edits", Rank: 0}, "a", 100),
	)
	s.waits(s.guest("new high", &Class{Name: "batch", Rank: 0}, "b", 100))
	s.waits(s.guest("new low", &Class{Name: "edits", Rank: 1}, "b", 100))
	s.check()
	s.give(s.ends[0], 4)
	s.expect("old low", "new high", "old high", "new low")

	// Two names of one rank are both served, by arrival.
	s.waits(s.guest("1", &Class{Name: "one"}, "a", 100), s.guest("2", &Class{Name: "two"}, "a", 100), s.guest("3", &Class{Name: "one"}, "a", 100))
	s.give(s.ends[0], 3)
	s.expect("1", "2", "3")

	// What was charged by one weight is given back by the same.
	g := s.guest("heavy", interactive, "w", 1000)
	g.Weight = 4
	s.waits(g)
	s.give(s.ends[0], 1)
	h := s.guest("light", interactive, "w", 1000)
	h.Weight = 1
	s.waits(h)
	s.queue.Settle(&g.Waiter, 0)
	s.queue.Remove(&h.Waiter, s.now)
	if c := s.queue.class(interactive).tenants["w"].counter; c != 0 {
		t.Errorf("a tenant that got everything back has had %v", c)
	}
	s.check()
}

// Names are cheap: neither classes nor tenants that are gone are kept for ever.
func TestNamesAreForgotten(t *testing.T) {
	s := newSite(t, 1)
	visit := func(c *Class, tenant string) {
		g := s.guest("", c, tenant, 1)
		s.push(g)
		s.queue.Settle(&g.Waiter, 1)
		s.end(g)
	}
	for i := range 3 * maxIdle {
		visit(interactive, fmt.Sprint("tenant ", i))
	}
	s.check()
	if n := len(s.queue.class(interactive).tenants); n > maxIdle {
		t.Errorf("%d tenants are remembered", n)
	}
	for i := range 3 * maxClasses {
		visit(&Class{Name: fmt.Sprint("class ", i)}, "a")
	}
	s.check()
	if n := len(s.queue.classes); n > maxClasses {
		t.Errorf("%d classes are remembered", n)
	}
}

// The first in line is tried when it comes, though the one that was first before
// it had to wait; whoever comes behind is not.
func TestANewFirstIsTried(t *testing.T) {
	s := newSite(t, 0)
	s.waits(s.guest("summary", background, "a", 100))
	s.ends[0].slots = 1 // nobody tells of it
	tries := s.tries
	s.waits(s.guest("another summary", background, "a", 100))
	if s.tries != tries {
		t.Errorf("%d are tried for one that comes last", s.tries-tries)
	}
	if e := s.push(s.guest("edit", interactive, "a", 100)); e != Granted {
		t.Errorf("entry %d", e)
	}
	s.check()
}

// Whoever frees something while a Call is being placed must find that somebody
// may want it: here nobody waits but that Call.
func TestACallThatIsPlacedCounts(t *testing.T) {
	s := newSite(t, 0)
	s.queue.world.Place = func(c *llmlb.Call, now time.Time) Placement {
		if s.queue.Len() != 1 {
			t.Errorf("%d wait while it is placed", s.queue.Len())
		}
		return s.place(c, now)
	}
	g := s.guest("a", interactive, "a", 100)
	s.waits(g)
	s.give(s.ends[0], 1)
	s.push(s.guest("b", interactive, "a", 100))
	s.give(s.ends[0], 1)
	if s.expect("a", "b"); s.queue.Len() != 0 {
		t.Errorf("%d wait in the end", s.queue.Len())
	}
}

// Requests that cost nothing, as far as is known, are not first for ever.
func TestNothingIsFree(t *testing.T) {
	s := newSite(t, 0)
	for i := range 3 {
		s.waits(s.guest(fmt.Sprint("free", i), interactive, "free", 0))
	}
	s.waits(s.guest("one", interactive, "pays", 1), s.guest("two", interactive, "pays", 1))
	s.give(s.ends[0], 5)
	s.expect("free0", "one", "free1", "two", "free2")
}

// A summary that is owed its turn and fits nowhere does not keep edits, which do
// fit, from theirs; nor do small summaries overtake a big edit that waits for room,
// which would have none for ever.
func TestOneThatDoesNotFit(t *testing.T) {
	s := newSite(t, 100)
	room := 10_000
	s.queue.world.Place = func(c *llmlb.Call, now time.Time) Placement {
		if c.InputTokens > room {
			return Placement{Answer: Busy}
		}
		return s.place(c, now)
	}
	s.push(s.guest("long edit", interactive, "a", 6000))
	room = 4000
	s.waits(s.guest("big summary", background, "a", 5000))
	for range 200 { // so that it is owed its turn, and more
		if e := s.push(s.guest("edit", interactive, "a", 2000)); e != Granted {
			t.Fatalf("entry %d for an edit that fits", e)
		}
		s.queue.Settle(&s.placed[len(s.placed)-1].Waiter, 2000)
		s.end(s.placed[len(s.placed)-1])
		s.check()
	}
	s.placed = nil
	batch := &Class{Name: "batch", Rank: 1} // it is owed nothing
	s.waits(s.guest("big edit", interactive, "a", 5000), s.guest("small edit", interactive, "a", 10), s.guest("small batch", batch, "b", 10))
	s.freed(s.ends[0])
	s.expect()
	room = 10_000
	s.freed(s.ends[0])
	s.expect("big summary", "big edit", "small edit", "small batch")
	s.check()
}
