package queue

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// sparing is a site whose second endpoint has room, and is spared for as long as
// nobody has to be refused.
func sparing(t *testing.T, slots int) *site {
	s := newSite(t, 0, slots)
	s.queue.world.Place = func(c *llmlb.Call, now time.Time) Placement {
		if c.Held = !c.Last && s.ends[1].room(); c.Held {
			return Placement{Answer: Busy}
		}
		return s.place(c, now)
	}
	return s
}

// Before a Call is refused because its time is over it is tried once more, at what is
// spared from those who can wait, and charged like any other.
func TestTheLastTry(t *testing.T) {
	c, held := &Class{Name: "c"}, &Class{Name: "held", Rank: 1, Saturation: 0.5}
	s := sparing(t, 1)
	one, two, low := s.guest("one", c, "a", 10), s.guest("two", c, "b", 10), s.guest("low", held, "", 10)
	s.waits(one, two)
	s.freed(s.ends[1])
	if len(s.placed) > 0 {
		t.Fatal("a Call that can wait has got what is spared")
	}
	if s.queue.Last(&two.Waiter, s.now) || two.ready != 1 || two.at != s.ends[1] {
		t.Errorf("it waited in vain, or was told %d times, though an endpoint has room", two.ready)
	}
	if !two.open || two.charged == 0 || s.queue.Len() != 1 {
		t.Errorf("open %v, charged %v, %d wait", two.open, two.charged, s.queue.Len())
	}
	if s.queue.Last(&two.Waiter, s.now) || two.ready != 1 {
		t.Error("one that has its place is tried again")
	}
	if !s.queue.Last(&one.Waiter, s.now) || one.Call.Last || s.queue.Len() != 0 {
		t.Error("it has a place where there is none, or waits still, or counts as one without time ever after")
	}
	s.ends[1].open, s.saturation = 0, 1
	s.waits(low)
	if !s.queue.Last(&low.Waiter, s.now) || s.ends[1].open > 0 {
		t.Error("a class that is kept from starting anything has started something")
	}
}

// A full queue refuses nobody while an endpoint has room that is spared: whose turn it
// is gets it, and the newcomer that one's place in the queue.
func TestAFullQueueSparesNothing(t *testing.T) {
	c, below := &Class{Name: "c"}, &Class{Name: "below", Rank: 1}
	for _, b := range []Bounds{{Calls: 2}, {Calls: 9, Tokens: 25}} {
		s := sparing(t, 2)
		one, two, three, four := s.guest("one", c, "a", 10), s.guest("two", c, "a", 10), s.guest("three", below, "b", 10), s.guest("four", below, "b", 10)
		for i, want := range []struct {
			*guest
			entry  Entry
			placed int
		}{{one, Waiting, 0}, {two, Waiting, 0}, {three, Waiting, 2}, {four, Waiting, 2}} {
			if got := s.queue.Push(&want.Waiter, b, s.now); got != want.entry || len(s.placed) != want.placed {
				t.Errorf("%+v, call %d: entry %d, and %d have a place, want %d and %d", b, i, got, len(s.placed), want.entry, want.placed)
			}
		}
		if one.at == nil || two.at == nil {
			t.Errorf("%+v: others than those whose turn it was have got a place", b)
		}
		if five := s.guest("five", below, "b", 10); s.queue.Push(&five.Waiter, b, s.now) == Waiting {
			t.Errorf("%+v: more wait than may, and nobody has room", b)
		}
	}
}

// A class that may not wait takes what is spared at once.
func TestWhoMayNotWaitIsNotHeldBack(t *testing.T) {
	s := sparing(t, 1)
	one, two := s.guest("one", &Class{Name: "c"}, "", 10), s.guest("two", &Class{Name: "c"}, "", 10)
	if e := s.queue.Push(&one.Waiter, Bounds{}, s.now); e != Granted || one.ready != 1 {
		t.Errorf("entry %d", e)
	}
	if e := s.queue.Push(&two.Waiter, Bounds{}, s.now); e != FullCalls || s.queue.Len() != 0 {
		t.Errorf("entry %d for one more than there is room for", e)
	}
}
