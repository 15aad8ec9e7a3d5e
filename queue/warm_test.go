package queue

import (
	"fmt"
	"testing"
	"time"
)

func (s *site) warm(name, tenant string, home *end, patience int) *guest {
	g := s.guest(name, interactive, tenant, 100)
	g.home, g.patience = home, patience
	return g
}

// A follow-up waits for the server that has its conversation, although another
// is idle, as long as not too many stand there before it.
func TestWarmOnesWaitForTheirServer(t *testing.T) {
	s := newSite(t, 0, 1)
	busy, idle := s.ends[0], s.ends[1]
	one, two, three := s.warm("one", "a", busy, 150), s.warm("two", "a", busy, 150), s.warm("three", "a", busy, 150)
	s.waits(one, two)
	if n := s.queue.Waiting(busy.Endpoint); n != 2 {
		t.Errorf("%d wait for it", n)
	}
	// For the third, that is too many.
	if e := s.push(three); e != Granted || three.at != idle {
		t.Errorf("the third: entry %d", e)
	}
	s.check()
	s.give(busy, 2)
	s.expect("three", "one", "two")
	if one.at != busy || two.at != busy || s.queue.Waiting(busy.Endpoint) != 0 {
		t.Error("they are not where their prefix is")
	}
	s.check()
}

// Room that nobody in line can use goes to the one that would wait longest
// elsewhere, if it would rather have it.
func TestRoomIsOfferedToTheLastOfTheLongestLine(t *testing.T) {
	s := newSite(t, 0, 0, 0)
	for i := range 4 {
		s.waits(s.warm(fmt.Sprint("a", i), "a", s.ends[0], 250))
	}
	s.waits(s.warm("b0", "b", s.ends[0], 0), s.warm("c0", "c", s.ends[1], 1000), s.warm("c1", "c", s.ends[1], 1000))
	s.check()
	s.give(s.ends[2], 3)
	// Before a3 stand its tenant's three, before a2 two and the other tenant's.
	// Those that are left have little before them, and stay, as do those of the
	// shorter line.
	s.expect("a3", "a2")
	s.check()
	s.give(s.ends[0], 3)
	s.expect("b0", "a0", "a1")
}

// Of two tenants with as much work in line it is the one who came last.
func TestRoomIsOfferedToTheNewestOfEquals(t *testing.T) {
	for _, last := range []string{"a", "b", "c"} {
		s := newSite(t, 0, 0)
		for _, tenant := range []string{"a", "b", "c"} {
			if tenant != last {
				s.waits(s.warm(tenant, tenant, s.ends[0], 1<<30))
			}
		}
		s.waits(s.warm(last, last, s.ends[0], 1<<30))
		for _, g := range s.guests {
			g.patience = -1
		}
		s.give(s.ends[1], 1)
		s.expect(last)
	}
}

// The longest of the other lines, where the endpoint's own is longer than all.
func TestLongestOfOthers(t *testing.T) {
	s := newSite(t, 0, 0, 0, 0)
	for i, n := range []int{3, 1, 2, 4} {
		for range n {
			s.waits(s.warm("", "a", s.ends[i], 1<<30))
		}
	}
	k, c := s.queue.byName[""], s.queue.class(interactive)
	for i, want := range []int{3, 3, 3, 0} {
		if p := k.longestBut(s.ends[i].Endpoint, c); p == nil || p.line.endpoint != s.ends[want].Endpoint {
			t.Errorf("for %d it is not that of %d", i, want)
		}
	}
	if p := k.longestBut(nil, s.queue.class(background)); p != nil {
		t.Errorf("a class of which nobody waits has %d in line", p.work)
	}
}

// Those who wait for a server of one model are asked although a longer line, of
// another, could not use what is free.
func TestRoomIsOfferedToEachKind(t *testing.T) {
	s := newSite(t, 0, 0, 0)
	s.ends[0].model, s.ends[1].model, s.ends[2].model = "llama", "qwen", "qwen"
	for i := range 9 {
		g := s.warm(fmt.Sprint("llama", i), "a", s.ends[0], 1<<30)
		g.Kind = "llama"
		s.waits(g)
	}
	for i := range 3 {
		g := s.warm(fmt.Sprint("qwen", i), "a", s.ends[1], 150)
		g.Kind = "qwen"
		if i == 2 { // a busier pool had made it patient
			g.patience = 1 << 30
		}
		s.waits(g)
		g.patience = 150
	}
	s.check()
	s.give(s.ends[2], 1)
	s.expect("qwen2")
	s.check()
}

// A class that is held back is not given what others leave either.
func TestHeldClassesAreNotOfferedRoom(t *testing.T) {
	s := newSite(t, 0, 0)
	held := &Class{Name: "held", Rank: 1, Saturation: 1}
	g := s.warm("held", "a", s.ends[0], 1<<30)
	g.Class = held
	s.waits(g)
	g.patience = -1
	s.saturation = 1
	s.give(s.ends[1], 1)
	s.expect()
	s.saturation = 0.9
	s.freed(s.ends[1])
	s.expect("held")
}

// When a server goes down, those who waited for it take what comes first, in the
// order of their arrival.
func TestAServerThatGoesDown(t *testing.T) {
	s := newSite(t, 0, 0, 0)
	s.waits(s.warm("w1", "a", s.ends[0], 1000))
	s.waits(s.guest("c1", interactive, "a", 100))
	s.waits(s.warm("w2", "b", s.ends[0], 1000), s.warm("w3", "a", s.ends[0], 1000))
	s.check()
	s.ends[0].down = true
	s.freed(s.ends[0])
	if s.queue.Waiting(s.ends[0].Endpoint) > 0 || s.queue.Len() != 4 {
		t.Errorf("%d wait for what is down, %d in all", s.queue.Waiting(s.ends[0].Endpoint), s.queue.Len())
	}
	s.check()
	s.give(s.ends[1], 4)
	s.expect("w1", "w2", "c1", "w3")
	s.check()
}

// One who no longer has a reason to wait for a server does not stand in its way.
func TestWhoLosesTheReasonToWait(t *testing.T) {
	s := newSite(t, 0, 0, 0)
	one, two := s.warm("one", "a", s.ends[0], 1000), s.warm("two", "a", s.ends[0], 1000)
	s.waits(one, two)
	one.home = s.ends[1] // its prefix was evicted, and computed elsewhere
	s.give(s.ends[0], 1)
	s.expect("two")
	s.check()
	if n := s.queue.Waiting(s.ends[1].Endpoint); n != 1 {
		t.Errorf("%d wait where the prefix is now", n)
	}
	one.home = nil
	s.ends[1].model = "another" // it has room, and cannot be used
	s.give(s.ends[1], 1)
	if n := s.queue.Waiting(s.ends[1].Endpoint); n != 0 || s.queue.Len() != 1 {
		t.Errorf("%d wait for one server, %d in all", n, s.queue.Len())
	}
	s.give(s.ends[2], 1)
	s.expect("one")
	s.check()
}

// How much stands before a Call: all of the classes above it, and of its own as
// much as is served while its tenant's own come up.
func TestAhead(t *testing.T) {
	s := newSite(t, 0, 0)
	e := s.ends[0]
	ahead := func(g *guest) int {
		s.waits(g)
		defer s.queue.Remove(&g.Waiter, s.now)
		return int(g.Ahead(e.Endpoint))
	}
	for i := range 10 {
		s.waits(s.warm(fmt.Sprint(i), "flood", e, 1<<30))
	}
	if n := ahead(s.guest("another's", interactive, "b", 100)); n != 0 {
		t.Errorf("another tenant's first has %d before it", n)
	}
	if n := ahead(s.guest("its own", interactive, "flood", 100)); n != 1000 {
		t.Errorf("the flood's own has %d before it", n)
	}
	if n := ahead(s.guest("a summary", background, "b", 100)); n != 1000 {
		t.Errorf("a lower class has %d before it", n)
	}
	s.waits(s.warm("b0", "b", e, 1<<30), s.warm("b1", "b", e, 1<<30))
	if n := ahead(s.guest("b2", interactive, "b", 100)); n != 400 {
		t.Errorf("after two of its own among two tenants it has %d before it", n)
	}

	// Of those who stand there, none stands before itself.
	s = newSite(t, 0, 0)
	a := []*guest{s.warm("a0", "a", s.ends[0], 1<<30), s.warm("a1", "a", s.ends[0], 1<<30), s.warm("a2", "a", s.ends[0], 1<<30)}
	s.waits(a...)
	s.waits(s.warm("b0", "b", s.ends[0], 1<<30))
	if first, last := a[0].Ahead(s.ends[0].Endpoint), a[2].Ahead(s.ends[0].Endpoint); first != 0 || last != 300 {
		t.Errorf("the first has %v before it, the last %v", first, last)
	}
}

// Where places are not reserved, one is given at a time, and the queue says that
// there is more to do.
func TestUnbooked(t *testing.T) {
	s := newSite(t, 0)
	s.unbooked = true
	s.waits(s.guest("1", interactive, "a", 100), s.guest("2", interactive, "a", 100))
	s.ends[0].slots = 2
	if !s.queue.Freed(s.ends[0].Endpoint, s.now) {
		t.Error("nothing is left to do")
	}
	s.expect("1")
	s.freed(s.ends[0])
	s.expect("2")

	// A newcomer whose turn is given to one that was owed it is not forgotten.
	s.ends[0].slots = 0
	s.waits(s.guest("summary", background, "a", 10), s.guest("3", interactive, "a", 1000))
	s.queue.class(background).owed = 10
	s.ends[0].slots = 1 // nobody tells of it
	s.queue.version++
	if e := s.push(s.guest("4", interactive, "a", 1000)); e != Waiting || !s.queue.Again() || s.queue.Again() {
		t.Errorf("entry %d, and nobody is told to ask again", e)
	}
	s.expect("summary")
}

// A server that hangs keeps nobody: those who wait for it, because it is to be
// free soon and goes on to look so, take another after a while.
func TestNobodyWaitsForAServerThatHangs(t *testing.T) {
	s := newSite(t, 0, 0)
	hung, other := s.ends[0], s.ends[1]
	s.waits(s.warm("first", "a", hung, 1<<30), s.warm("second", "a", hung, 1<<30))
	cold := s.guest("cold", interactive, "b", 100)
	s.waits(cold)
	s.give(other, 1) // whoever waits for no server in particular goes on
	s.expect("cold")
	for range 6 {
		s.now = s.now.Add(time.Second)
		s.freed(other)
	}
	s.check()
	s.give(other, 1)
	s.expect("first")
	s.give(other, 1)
	s.expect("second")
}

// While some get their places there, the others go on waiting.
func TestALineThatMovesIsWaitedIn(t *testing.T) {
	s := newSite(t, 0, 0)
	for i := range 4 {
		s.waits(s.warm(fmt.Sprint("a", i), "a", s.ends[0], 1<<30))
	}
	for i := range 3 {
		s.now = s.now.Add(4 * time.Second)
		s.give(s.ends[0], 1)
		s.expect(fmt.Sprint("a", i))
		s.freed(s.ends[1])
	}
	if n := s.queue.Waiting(s.ends[0].Endpoint); n != 1 {
		t.Errorf("%d wait for the server, want the last one", n)
	}
}
