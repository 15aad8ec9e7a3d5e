package simulator

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
)

// door is how calls come in.
type door interface {
	// admit gives the call its place now, or later, or ends it.
	admit(v *visit)

	// leave takes a call out that has no place yet, and left notes that one has
	// ended which had.
	leave(v *visit)
	left(v *visit)
}

// guest is whom a call comes from, and what they ask for.
type guest struct {
	class  *queue.Class
	tenant string
	weight float64
	whole  bool // the answer is to come in one piece

	// patience is how long after its arrival the client waits for the end. 0 is as
	// long as it takes.
	patience time.Duration
}

// The classes of the service, as the options have them by default.
var (
	interactive = &queue.Class{Name: "interactive", MaxWait: 30 * time.Second}
	background  = &queue.Class{Name: "background", Rank: 1, Share: 0.05, Saturation: 1, MaxWait: 15 * time.Minute}
	nobody      = &guest{class: interactive}
)

// admission is what a visit has to do with the door.
type admission struct {
	guest   *guest
	prompt  *prompt // nil once it was sent
	waiter  *queue.Waiter
	placed  time.Duration
	tokens  int // generated so far
	ends    int
	refused bool
	gone    bool // the client has left
}

func (w *world) admit(v *visit) {
	if w.door == nil {
		w.door = atOnce{w}
	}
	if p := v.guest.patience; p > 0 {
		w.after(p, arrives, func() { w.hangUp(v) })
	}
	w.door.admit(v)
}

// over notes that the call has ended, however that was.
func (w *world) over(v *visit) {
	v.last = w.now
	v.ends++
	w.ended++
	w.door.left(v)
	if v.then != nil {
		v.then(v)
	}
}

// refuse ends a call that gets no place.
func (w *world) refuse(v *visit) {
	v.refused, v.prompt = true, nil
	w.over(v)
}

// hangUp has the client leave, wherever the call is.
func (w *world) hangUp(v *visit) {
	if v.ends > 0 {
		return
	}
	v.gone = true
	if v.machine == nil {
		w.door.leave(v)
	} else {
		v.machine.engine.Abort(v.id)
		delete(v.machine.open, v.id)
		v.call.EndAttempt(w.clock(), llmlb.ClientGone)
	}
	w.over(v)
}

// atOnce is the pool without a queue: the choice is made as a call arrives.
type atOnce struct{ *world }

func (d atOnce) leave(*visit) {}
func (d atOnce) left(*visit)  {}

func (d atOnce) admit(v *visit) {
	if a := selection.Grant(v.call, d.clock()); a != selection.Granted {
		d.t.Fatalf("verdict %v for call %d after %v, want Granted", a, v.id, d.now)
	}
	d.sent(v)
}

// sent is what the proxy does with a call that has its place.
func (w *world) sent(v *visit) {
	e := v.call.Lease.Endpoint()
	w.begin(v, w.machineOf(e))
	w.after(0, arrives, func() {
		if v.ends == 0 {
			v.call.Begin(e, w.clock())
		}
	})
}

// leastConn is Caddy's least_conn: the server with the fewest open requests, any
// of them where several have as few.
type leastConn struct {
	*world
	open []int
}

func newLeastConn(w *world) { w.door = &leastConn{w, make([]int, len(w.machines))} }

func (d *leastConn) admit(v *visit) {
	best, equals := 0, 0
	for i, n := range d.open {
		if n < d.open[best] {
			best, equals = i, 0
		}
		if n == d.open[best] {
			if equals++; d.rng.IntN(equals) == 0 {
				best = i
			}
		}
	}
	d.open[best]++
	d.begin(v, d.machines[best])
}

func (d *leastConn) leave(*visit)  {}
func (d *leastConn) left(v *visit) { d.open[v.machine.number]-- }

// lounge is the pool with its queue, wired as the admission handler does it, but
// by the world's clock.
type lounge struct {
	*world
	queue  *queue.Queue
	bounds queue.Bounds
	tickAt time.Time
	again  bool // the queue has left something undone, for tickAt
	placed int  // calls so far
}

// queued has calls wait as they do by default.
func (w *world) queued() *lounge {
	d := &lounge{world: w, bounds: queue.Bounds{Calls: 1024}}
	d.queue = queue.New(queue.World{
		Place: d.place, Room: selection.Room,
		Saturation: func(now time.Time) float64 { return selection.Saturation(w.pool, now) },
	})
	w.pool.OnRoom(d.room)
	w.door = d
	return d
}

func (d *lounge) place(c *llmlb.Call, now time.Time) queue.Placement {
	v, e, uncached := selection.Place(c, now)
	p := queue.Placement{For: e, Uncached: uncached, Why: uint8(v)}
	switch v {
	case selection.Granted:
		p.Answer = queue.Placed
	case selection.Full, selection.Busy, selection.Overloaded:
		p.Answer = queue.Busy
	default:
	}
	return p
}

func (d *lounge) admit(v *visit) {
	g, now := v.guest, d.clock()
	until := now.Add(g.class.MaxWait)
	w := &queue.Waiter{Call: v.call, Class: g.class, Tenant: g.tenant, Weight: g.weight, Until: until}
	w.Kind = selection.Kind(v.call)
	w.Ready = func() {
		d.placed++
		d.sent(v)
	}
	v.waiter = w
	switch d.queue.Push(w, d.bounds, now) {
	case queue.Granted:
	case queue.Waiting:
		d.arm(false)
		d.after(g.class.MaxWait, arrives, func() {
			if v.ends > 0 || v.machine != nil {
				return
			}
			d.tick()
			if d.queue.Remove(w, d.clock()) {
				d.refuse(v)
			}
		})
	default:
		d.refuse(v)
	}
}

func (d *lounge) leave(v *visit) {
	if !d.queue.Remove(v.waiter, d.clock()) {
		d.t.Errorf("call %d left while it waited, and the queue did not know it", v.id)
	}
}

// left settles what the call has cost in truth, as far as that is known.
func (d *lounge) left(v *visit) {
	c, cost := v.call, 0.0
	if v.machine != nil {
		uncached := max(0, c.InputTokens-v.decision.Matched)
		if c.PromptTokens >= 0 {
			uncached = max(0, c.PromptTokens-max(0, c.CachedTokens))
		}
		output := c.OutputTokens
		if output < 0 {
			output = c.TokenEvents
		}
		cost = queue.Price(uncached, output)
	}
	d.queue.Settle(v.waiter, cost)
}

// room offers what the endpoint may have to those who wait.
func (d *lounge) room(e *llmlb.Endpoint) {
	if d.queue.Len() > 0 {
		d.arm(d.queue.Freed(e, d.clock()))
	}
}

// lull is how long an endpoint with room may go unasked.
const lull = 100 * time.Millisecond

// arm plans the next moment at which an endpoint may have room by nothing but
// the passing of time, or may be taken though it had room before.
func (d *lounge) arm(again bool) {
	if d.queue.Len() == 0 {
		return
	}
	now := d.clock()
	at := d.pool.NextRoom(now)
	if again = d.queue.Again() || again; again {
		at = now.Add(time.Millisecond)
	}
	if at.IsZero() || at.Sub(now) > lull {
		at = now.Add(lull)
	}
	if d.tickAt.After(now) && !d.tickAt.After(at) {
		return
	}
	d.tickAt, d.again = at, again
	d.after(at.Sub(now), arrives, func() {
		if d.tickAt.Equal(at) {
			d.again = false
			d.tick()
		}
	})
}

func (d *lounge) tick() {
	for _, e := range d.pool.Endpoints() {
		d.room(e)
	}
	d.arm(false)
}
