package queue

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Expected is how long a Call of the tenant that came now would wait, by how fast
// the queue has emptied of late: 0 when it would be next, or when that is not
// known. Where nothing has ever left the queue, it is how long that has been so,
// if that is more than a moment.
func (q *Queue) Expected(spec *Class, tenant string, now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := 0.0
	for _, c := range q.classes {
		if t := c.tenants[tenant]; t != nil && c.spec.Name == spec.Name {
			own = t.cost
		}
	}
	return q.drain.wait(q.ahead(spec.Rank, own, 0), now)
}

// ExpectedOf is how long a Call that waits will do so still, likewise. It is 0
// for one that does not wait.
func (q *Queue) ExpectedOf(w *Waiter, now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.flow == nil {
		return 0
	}
	own := w.tenant.cost
	for x := w.element; x != nil; x = x.Next() {
		own -= x.Value.(*Waiter).cost
	}
	ahead := q.ahead(w.tenant.class.spec.Rank, max(0, own), w.cost)
	if ahead <= 0 {
		return 0
	}
	return q.drain.wait(ahead, now)
}

// ahead is what those cost who are served before a Call whose tenant has so much
// waiting before it. The Call's own cost is in the sum of its class, or 0.
func (q *Queue) ahead(rank int, own, itself float64) float64 {
	above, same, tenants := 0.0, -itself, 0
	for _, c := range q.classes {
		switch r := c.spec.Rank; {
		case r < rank:
			above += c.cost
		case r == rank:
			same += c.cost
			tenants += c.active.len()
		}
	}
	// Tenants take turns, as in Waiter.Ahead.
	return above + min(max(0, same), own*float64(tenants))
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
