package queue

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Waiter is one Call that asks for its turn.
type Waiter struct {
	Call   *llmlb.Call
	Class  *Class
	Tenant string
	Weight float64 // of the tenant; 0 is 1

	// Kind is equal for Calls that the same endpoints can serve: the model, where
	// somebody lists it.
	Kind string

	// Until is until when the Call may wait; zero for no end. It is for whoever
	// waits to remove it then: here it only says what is hopeless.
	Until time.Time

	// Ready is called once for each Push that was granted, under the queue's
	// lock: it must not call the queue.
	Ready func()

	queue   *Queue
	tenant  *tenant
	flow    *flow // where it stands, nil when it does not wait
	before  *Waiter
	behind  *Waiter
	seq     uint64
	since   time.Time // when it first asked
	entered time.Time // when it asked last

	tokens  int     // prompt and expected output
	cost    float64 // what it is thought to cost
	work    int     // prompt tokens, at the endpoint it waits for
	charged float64
	open    bool // granted and not settled
	tried   bool // when it was let in
	answer  Answer
	why     uint8
}

// Answer tells why the Call waits: Nowhere or Busy. Ask after Remove.
func (w *Waiter) Answer() Answer { return w.answer }

// Why is the Placement's, likewise.
func (w *Waiter) Why() uint8 { return w.why }

// Ahead returns the prompt tokens of those who stand before the Call in the line
// for an endpoint, as far as they will be served before it. Selection asks while
// it places the Call.
func (w *Waiter) Ahead(e *llmlb.Endpoint) float64 {
	l := w.queue.warm[e]
	if l == nil {
		return 0
	}
	above, same := 0, 0
	for c, n := range l.work {
		switch {
		case c == w.tenant.class:
			same += n
		case c.spec.Rank < w.tenant.class.spec.Rank:
			above += n
		}
	}
	// Tenants take turns: for each Call of its own that stands before it, every
	// other one in the line has one served too.
	own := 0
	if f := l.flows[w.tenant]; f != nil {
		own = f.work
		if w.flow == f {
			own -= w.work
			if f.head == w {
				own = 0
			}
		}
	}
	return float64(above + min(same, own*l.tenants(w.tenant.class)))
}

// price is what the Call costs where it was placed.
func (w *Waiter) price() float64 {
	c := w.Call
	if c.Lease == nil {
		return w.cost
	}
	return price(c.Lease.Uncached(), output(c))
}
