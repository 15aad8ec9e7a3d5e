package simulator

import (
	"container/heap"
	"testing"
	"time"
)

// timeline is virtual time: what is going to happen, in order. It has no
// goroutine and never waits, and what is planned in the same order happens in
// the same order.
type timeline struct {
	now     time.Duration
	plans   planHeap
	planned uint64
}

// plan is one thing to happen.
type plan struct {
	at     time.Duration
	rank   rank
	number uint64
	do     func()
}

// rank orders what happens at the same moment: an engine's step ends before the
// numbers are read and before anybody asks for more.
type rank uint8

const (
	stepEnds rank = iota
	scrapes
	arrives
)

// after plans something d from now.
func (l *timeline) after(d time.Duration, r rank, do func()) {
	l.planned++
	heap.Push(&l.plans, plan{at: l.now + d, rank: r, number: l.planned, do: do})
}

// run lets time pass until stop says so, or until nothing is left to happen.
func (l *timeline) run(stop func() bool) {
	for len(l.plans) > 0 && !stop() {
		p := heap.Pop(&l.plans).(plan)
		l.now = p.at
		p.do()
	}
}

// planHeap implements heap.Interface.
type planHeap []plan

func (h planHeap) Len() int      { return len(h) }
func (h planHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *planHeap) Push(x any)   { *h = append(*h, x.(plan)) }

func (h planHeap) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	if a.at != b.at {
		return a.at < b.at
	}
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.number < b.number
}

func (h *planHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = plan{}
	*h = (*h)[:last]
	return p
}

// Things happen by time, then by rank, then as they were planned; and what
// happens may plan more.
func TestTimelineOrder(t *testing.T) {
	var l timeline
	var got string
	say := func(s string) func() { return func() { got += s } }
	l.after(2, arrives, say("d"))
	l.after(1, arrives, say("b"))
	l.after(1, arrives, say("c"))
	l.after(1, stepEnds, func() {
		got += "a"
		l.after(2, scrapes, say("e"))
	})
	l.after(9, arrives, say("never"))
	l.run(func() bool { return len(got) == 5 })
	if got != "abcde" || l.now != 3 {
		t.Errorf("%q until %v, want abcde until 3ns", got, l.now)
	}
}
