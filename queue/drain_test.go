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
		if got := s.queue.Expected(interactive); got < want*95/100 || got > want*105/100 {
			t.Errorf("%d wait: expected %v, want %v", depth, got, want)
		}
		if got := s.queue.Expected(&Class{Name: "urgent", Rank: -1}); got != 0 {
			t.Errorf("%d of lower classes wait: expected %v", depth, got)
		}
		if a, b := s.queue.Expected(interactive), s.queue.Expected(background); a != b {
			t.Errorf("a lower class waits %v, this one %v", b, a)
		}
	}
}

// A queue that nothing has left yet says nothing of how long it takes, and one
// that is empty that it takes no time.
func TestExpectedWhereNothingIsKnown(t *testing.T) {
	s := newSite(t, 0)
	s.waits(s.guest("", interactive, "a", 100))
	if d := s.queue.Expected(interactive); d != 0 {
		t.Errorf("expected %v", d)
	}
	s = drains(t, 1000, 2, 1)
	s.give(s.ends[0], 1)
	if d := s.queue.Expected(interactive); d != 0 || s.queue.Len() != 0 {
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
	if d := s.queue.Expected(interactive); d < 900*time.Millisecond || d > 1100*time.Millisecond {
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
	if d := s.queue.Expected(interactive); d < 7*time.Second || d > 11*time.Second {
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
	if d := s.queue.Expected(interactive); d != 0 {
		t.Errorf("expected %v", d)
	}
}
