package virtual

import "time"

// timeline is virtual time: what is going to happen, in order. It has no
// goroutine and never waits, and what is planned in the same order happens in
// the same order.
type timeline struct {
	now     time.Duration
	plans   []plan // a heap
	planned uint64
}

// plan is one thing to happen.
type plan struct {
	at    time.Duration
	order uint64 // its rank, and then its number
	do    func()
}

// rank orders what happens at the same moment: an engine's step ends before the
// numbers are read and before anybody asks for more.
type rank uint8

const (
	stepEnds rank = iota
	scrapes
	arrives
)

const rankShift = 62

// after plans something d from now.
func (l *timeline) after(d time.Duration, r rank, do func()) {
	l.planned++
	l.push(plan{at: l.now + d, order: uint64(r)<<rankShift | l.planned, do: do})
}

// run lets time pass until stop says so, or until nothing is left to happen.
func (l *timeline) run(stop func() bool) {
	for len(l.plans) > 0 && !stop() {
		p := l.pop()
		l.now = p.at
		p.do()
	}
}

func (p *plan) before(q *plan) bool {
	return p.at < q.at || p.at == q.at && p.order < q.order
}

// push and pop are what container/heap does, without an allocation for each plan:
// there are millions.
func (l *timeline) push(p plan) {
	l.plans = append(l.plans, p)
	h := l.plans
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !p.before(&h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = p
}

func (l *timeline) pop() plan {
	h := l.plans
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = plan{}
	h = h[:len(h)-1]
	l.plans = h
	if len(h) == 0 {
		return first
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].before(&h[down]) {
			down++
		}
		if !h[down].before(&last) {
			break
		}
		h[i] = h[down]
		i = down
	}
	h[i] = last
	return first
}
