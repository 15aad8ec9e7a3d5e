package queue

import (
	"fmt"
	"testing"
	"time"
)

// drains has a queue empty at that many tokens a second while more than enough
// wait, and then stop.
func drains(t *testing.T, perSecond, seconds, depth int) *site {
	s := newSite(t, 0)
	for i := range depth {
		s.waits(s.guest(fmt.Sprint(i), interactive, "a", 100))
	}
	for range seconds * perSecond / 100 {
		s.now = s.now.Add(time.Second * 100 / time.Duration(perSecond))
		s.give(s.ends[0], 1)
		s.push(s.guest("", interactive, "a", 100))
	}
	return s
}

// How long one that came now would wait is what stands before it, by how fast it
// has gone of late: also where seldom more than one waits.
func TestExpected(t *testing.T) {
	for _, depth := range []int{1, 20, 500} {
		s := drains(t, 1000, 5, depth)
		want := time.Duration(depth) * 100 * time.Millisecond
		if got := s.queue.Expected(interactive, "a", s.now); got < want*95/100 || got > want*105/100 {
			t.Errorf("%d wait: expected %v, want %v", depth, got, want)
		}
		if got := s.queue.Expected(&Class{Name: "urgent", Rank: -1}, "a", s.now); got != 0 {
			t.Errorf("%d of lower classes wait: expected %v", depth, got)
		}
		if a, b := s.queue.Expected(interactive, "a", s.now), s.queue.Expected(background, "a", s.now); a != b {
			t.Errorf("a lower class waits %v, this one %v", b, a)
		}
	}
}

// A queue that nothing has left yet says nothing of how long it takes, and one
// that is empty that it takes no time.
func TestExpectedWhereNothingIsKnown(t *testing.T) {
	s := newSite(t, 0)
	s.waits(s.guest("", interactive, "a", 100))
	if d := s.queue.Expected(interactive, "a", s.now); d != 0 {
		t.Errorf("expected %v", d)
	}
	s = drains(t, 1000, 2, 1)
	s.give(s.ends[0], 1)
	if d := s.queue.Expected(interactive, "a", s.now); d != 0 || s.queue.Len() != 0 {
		t.Errorf("of an empty queue: %v, %d wait", d, s.queue.Len())
	}
}

// The pauses in which nobody waits are not what it takes, and what was a while
// ago does not count for ever.
func TestDrainForgets(t *testing.T) {
	s := drains(t, 1000, 5, 1)
	s.give(s.ends[0], 1)
	s.now = s.now.Add(time.Hour)
	s.waits(s.guest("", interactive, "a", 1000))
	if d := s.queue.Expected(interactive, "a", s.now); d < 900*time.Millisecond || d > 1100*time.Millisecond {
		t.Errorf("after an hour without anybody: %v", d)
	}
	for range 60 { // ten times slower
		s.now = s.now.Add(time.Second)
		s.push(s.guest("", interactive, "a", 100))
		s.give(s.ends[0], 1)
	}
	for s.queue.Len() > 0 {
		s.give(s.ends[0], 1)
	}
	s.waits(s.guest("", interactive, "a", 1000))
	if d := s.queue.Expected(interactive, "a", s.now); d < 7*time.Second || d > 11*time.Second {
		t.Errorf("after a slow minute: %v", d)
	}
}

// What goes straight through says nothing of how much would.
func TestDrainLearnsOnlyFromThoseWhoWait(t *testing.T) {
	s := newSite(t, 0)
	for range 50 {
		s.now = s.now.Add(time.Second)
		s.ends[0].slots++
		s.push(s.guest("", interactive, "a", 100))
	}
	s.waits(s.guest("", interactive, "a", 100))
	if d := s.queue.Expected(interactive, "a", s.now); d != 0 {
		t.Errorf("expected %v", d)
	}
}

// Tenants take turns: how much another one has waiting says little of when the
// first request of a tenant has its turn, and what a request costs itself nothing.
func TestExpectedIsTheTenantsOwn(t *testing.T) {
	s := drains(t, 1000, 5, 50)
	if d := s.queue.Expected(interactive, "b", s.now); d != 0 {
		t.Errorf("of a tenant that is next: %v", d)
	}
	within := func(name string, got, want time.Duration) {
		t.Helper()
		if got < want*9/10 || got > want*11/10 {
			t.Errorf("%s: expected %v, want %v", name, got, want)
		}
	}
	first, second := s.guest("b1", interactive, "b", 100), s.guest("b2", interactive, "b", 100_000)
	s.waits(first, second)
	if d := s.queue.ExpectedOf(&first.Waiter, s.now); d != 0 {
		t.Errorf("of the first of its tenant: %v", d)
	}
	within("the second of two tenants", s.queue.ExpectedOf(&second.Waiter, s.now), 200*time.Millisecond)
	within("one more of the many", s.queue.Expected(interactive, "a", s.now), 10*time.Second)
	low := s.guest("low", background, "b", 100)
	s.waits(low)
	within("below them all", s.queue.ExpectedOf(&low.Waiter, s.now), 105200*time.Millisecond)
	s.queue.Remove(&second.Waiter, s.now)
	within("without the long one", s.queue.ExpectedOf(&low.Waiter, s.now), 5100*time.Millisecond)
	s.queue.Remove(&low.Waiter, s.now)
	if d := s.queue.ExpectedOf(&low.Waiter, s.now); d != 0 {
		t.Errorf("of one that has left: %v", d)
	}
}

// No more can stand before a request than waits.
func TestExpectedIsNoMoreThanAll(t *testing.T) {
	s := drains(t, 1000, 5, 20)
	for i := range 10 {
		s.waits(s.guest("", interactive, fmt.Sprint(i), 100))
	}
	if d := s.queue.Expected(interactive, "a", s.now); d < 2700*time.Millisecond || d > 3300*time.Millisecond {
		t.Errorf("expected %v of 30 requests that take 3s", d)
	}
}

// A queue that has stood still since it began is not one to come back to in a
// second.
func TestExpectedOfAQueueThatStandsStill(t *testing.T) {
	s := newSite(t, 0)
	g := s.guest("", interactive, "a", 100)
	s.waits(g, s.guest("", interactive, "a", 100))
	for _, test := range []struct{ after, want time.Duration }{{time.Second, 0}, {19 * time.Second, 20 * time.Second}} {
		s.now = s.now.Add(test.after)
		if d := s.queue.Expected(interactive, "b", s.now); d != test.want {
			t.Errorf("expected %v, want %v", d, test.want)
		}
		if d := s.queue.ExpectedOf(&g.Waiter, s.now); d != 0 {
			t.Errorf("of the one that is next: %v", d)
		}
	}
}
