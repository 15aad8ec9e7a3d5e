package queue

import "testing"

// A Call that finds room costs the queue nothing of the heap, beside the record of
// it that the caller makes.
func TestPushAllocatesNothing(t *testing.T) {
	s := newSite(t, 1)
	g := s.guest("", interactive, "a", 100)
	g.Ready = func() {}
	var w Waiter
	got := testing.AllocsPerRun(100, func() {
		w = g.Waiter
		if s.queue.Push(&w, many, s.now) != Granted {
			t.Fatal("not granted")
		}
		s.queue.Settle(&w, 50)
		g.at.open--
	})
	if got > 1 {
		t.Errorf("%v allocations, want 1 at most", got)
	}
}

// One that waits, and one that takes its turn, cost what they are kept in: it does
// not grow with how many wait.
func TestATurnAllocatesNothingThatGrows(t *testing.T) {
	turns := func(waiting int) float64 {
		l := newLobby(t, waiting, waiting/2, 100, 64)
		i := 0
		return testing.AllocsPerRun(200, func() {
			i++
			l.turn(t, l.ends[i%64])
		})
	}
	few, many := turns(100), turns(10_000)
	if few > 12 || many > 12 {
		t.Errorf("%v allocations where 100 wait, %v where 10,000 do, want 12 at most", few, many)
	}
}
