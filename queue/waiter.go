package queue

import (
	"container/list"
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

	// Out is called, likewise, when the Call has to leave because another tenant
	// needs its place in a full queue: why is FullCalls or FullTokens. A Call
	// without it stays.
	Out func(why Entry)

	queue   *Queue
	tenant  *tenant
	flow    *flow         // where it stands, nil when it does not wait
	element *list.Element // in tenant.line, likewise
	oldAt   int           // its places in flow.oldest and flow.newest
	newAt   int
	seq     uint64
	since   time.Time // when it first asked
	entered time.Time // when it asked last

	tokens  int     // prompt and expected output
	cost    float64 // what it is thought to cost
	work    int     // the effort of its prompt, at the endpoint it waits for
	charged float64
	pending float64 // what of it the tenant may get back, by its weight
	open    bool    // granted and not settled
	tried   bool    // when it was let in
	answer  Answer
	why     uint8
}

// Answer tells why the Call waits: Nowhere or Busy. Ask after Remove.
func (w *Waiter) Answer() Answer { return w.answer }

// Why is the Placement's, likewise.
func (w *Waiter) Why() uint8 { return w.why }

// Ahead returns the effort of the prompts of those who stand before the Call in the
// line for an endpoint, as far as they will be served before it. Selection asks while
// it places the Call.
func (w *Waiter) Ahead(e *llmlb.Endpoint) float64 {
	mine := w.tenant.class
	above, same, own, tenants := 0, 0, 0, 0
	for _, l := range w.queue.warm[e] {
		for _, p := range l.parts {
			switch r := p.class.spec.Rank; {
			case r < mine.spec.Rank:
				above += p.work
			case r == mine.spec.Rank:
				same += p.work
				tenants += p.turn.len()
			}
			if f := p.flows[w.tenant]; f != nil && f.first() != w {
				own += f.work
				if w.flow == f {
					own -= w.work
					same -= w.work
				}
			}
		}
	}
	// Tenants take turns: for each Call of its own that stands before it, every
	// other one in the line has one served too.
	return float64(above + min(same, own*tenants))
}

// price is what the Call costs where it was placed.
func (w *Waiter) price() float64 {
	c := w.Call
	if c.Lease == nil {
		return w.cost
	}
	return estimate(c.Lease.Uncached(), c)
}
