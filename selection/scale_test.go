package selection

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
)

// waitingRoom is a pool in which every endpoint has enough to do, with a queue in
// front of it as the admission handler has one.
type waitingRoom struct {
	*world
	queue *queue.Queue
	open  []*llmlb.Call // placed, the oldest first
	n     int
}

// newWaitingRoom has so many endpoints work, and so many Calls wait, every other
// one of them for the endpoint that holds its prefix.
func newWaitingRoom(t testing.TB, endpoints, waiting int) *waitingRoom {
	r := &waitingRoom{world: newWorld(t, addresses(endpoints)...)}
	indexOf(r.pool).resize(DefaultIndexBytes)
	for i, m := range r.settings.Members {
		r.models(m.Address, llmlb.Model{ID: "base"})
		r.trains(m.Endpoint, 6000+float64(i%7)*100)
	}
	r.scrapeAll(2, 0, 0.3)
	r.queue = queue.New(queue.World{Place: r.place, Room: Room, Saturation: func(now time.Time) float64 { return Saturation(r.pool, now) }})
	for r.push() == queue.Granted {
	}
	for r.queue.Len() < waiting {
		r.push()
	}
	return r
}

// trains has an endpoint show how fast it is.
func (w *world) trains(e *llmlb.Endpoint, speed float64) {
	for range 5 {
		c := w.call(prompt(part{fmt.Sprint("lesson ", e.Address()), 4000}))
		w.pool.Lock()
		c.Lease = w.pool.Reserve(e, w.now, llmlb.Work{Uncached: 4000, Output: 1})
		w.pool.Unlock()
		at := w.now.Add(time.Duration(4000 / speed * float64(time.Second)))
		c.SawFirstToken(at)
		c.EndAttempt(at, llmlb.Served)
	}
}

func (r *waitingRoom) place(c *llmlb.Call, now time.Time) queue.Placement {
	v, e, effort := Place(c, now)
	switch v {
	case Granted:
		return queue.Placement{Answer: queue.Placed}
	case Busy, Full, Overloaded:
		return queue.Placement{Answer: queue.Busy, For: e, Effort: effort}
	}
	return queue.Placement{}
}

var anyone = &queue.Class{Name: "interactive"}

// push has another Call come: of 32 KB, and every other one a second turn.
func (r *waitingRoom) push() queue.Entry {
	r.n++
	parts := []part{{fmt.Sprint("conversation ", r.n%2*r.n), 7000}, {fmt.Sprint("turn ", r.n), 1000}}
	c := r.call(prompt(parts...))
	c.Model = "base"
	w := &queue.Waiter{Call: c, Class: anyone, Tenant: fmt.Sprint("tenant ", r.n%100), Kind: "base"}
	w.Ready = func() { r.open = append(r.open, c) }
	return r.queue.Push(w, queue.Bounds{Calls: 1 << 30}, r.now)
}

// turn has the oldest Call that was placed end, and others come.
func (r *waitingRoom) turn(waiting int) {
	c := r.open[0]
	r.open = r.open[1:]
	e := c.Lease.Endpoint()
	r.now = r.now.Add(time.Millisecond)
	c.SawFirstToken(r.now)
	c.EndAttempt(r.now, llmlb.Served)
	for r.queue.Freed(e, r.now) {
	}
	for r.queue.Len() < waiting {
		r.push()
	}
}

// One Call ends, those that wait are asked, and another comes: all that is done for
// a request in a pool that has more to do than it can.
func BenchmarkWaitingRoom(b *testing.B) {
	for _, endpoints := range []int{64, 1000} {
		for _, waiting := range []int{100, 10_000} {
			b.Run(fmt.Sprintf("endpoints=%d/waiting=%d", endpoints, waiting), func(b *testing.B) {
				r := newWaitingRoom(b, endpoints, waiting)
				for range endpoints {
					r.turn(waiting)
				}
				began := r.n
				b.ReportAllocs()
				for b.Loop() {
					r.turn(waiting)
				}
				b.ReportMetric(float64(r.n-began)/float64(b.N), "calls/op")
			})
		}
	}
}
