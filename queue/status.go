package queue

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Expected is how long a Call of the class that came now would wait, by how fast
// the queue has emptied of late: 0 when nobody stands before it, or when that is
// not known.
func (q *Queue) Expected(spec *Class) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	ahead := 0.0
	for _, c := range q.classes {
		if c.spec.Rank <= spec.Rank {
			ahead += c.cost
		}
	}
	return q.drain.wait(ahead)
}

// Saturation is what the queue goes by when it holds a class back.
func (q *Queue) Saturation(now time.Time) float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.world.Saturation(now)
}

// Waiting returns how many Calls wait for the endpoint alone, because what they
// need is there.
func (q *Queue) Waiting(e *llmlb.Endpoint) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	calls := 0
	for _, l := range q.warm[e] {
		calls += l.calls
	}
	return calls
}

// ClassStatus is what is known of one class.
type ClassStatus struct {
	Name   string
	Calls  int // that wait
	Tokens int // of them, prompts and expected output
	Oldest time.Duration
	Waits  *llmlb.Histogram // of those that were placed, in seconds
}

// Status returns the classes that have had Calls, by rank.
func (q *Queue) Status(now time.Time) []ClassStatus {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]ClassStatus, 0, len(q.classes))
	for _, c := range q.classes {
		st := ClassStatus{Name: c.spec.Name, Calls: c.calls, Tokens: c.tokens, Waits: c.waits}
		for _, t := range c.active.items {
			for _, f := range t.flows {
				st.Oldest = max(st.Oldest, now.Sub(f.first().since))
			}
		}
		list = append(list, st)
	}
	return list
}
