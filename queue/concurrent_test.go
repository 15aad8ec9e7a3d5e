package queue

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// crowd is a site with a lock of its own, as the pool has: its endpoints change
// without the queue's knowing, and whoever has changed one tells of it.
type crowd struct {
	mu sync.Mutex
	*site
}

func newCrowd(t testing.TB, slots ...int) *crowd {
	c := &crowd{site: newSite(t, slots...)}
	inner := c.queue.world
	c.queue.world.Place = func(call *llmlb.Call, now time.Time) Placement {
		c.mu.Lock()
		defer c.mu.Unlock()
		return inner.Place(call, now)
	}
	c.queue.world.Room = func(e *llmlb.Endpoint, now time.Time) (room, usable bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return inner.Room(e, now)
	}
	return c
}

// change changes an endpoint, and tells of it.
func (c *crowd) change(e *end, f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	if c.queue.Len() > 0 {
		c.freed(e)
	}
}

func (c *crowd) join(name string, class *Class, home int) (*guest, chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.guest(name, class, name, 100)
	g.home, g.patience = c.ends[home], 1000
	ready := make(chan struct{})
	g.Ready = func() { close(ready) }
	return g, ready
}

// Hundreds of clients come, wait, leave and are served at once, while servers go
// down and come back: nobody is forgotten, no place is given twice or lost, and
// one that leaves at the moment of its turn either has its place or has not.
func TestConcurrent(t *testing.T) {
	const clients, calls = 200, 30
	c := newCrowd(t, 3, 2, 1, 2)
	// Every place is taken until each client's first call waits: a machine that runs
	// the clients one after the other would let none of them wait.
	for _, e := range c.ends {
		e.open = e.slots
	}
	var done, come sync.WaitGroup
	come.Add(clients)
	var served, left atomic.Int64
	for client := range clients {
		done.Go(func() {
			r := rand.New(rand.NewPCG(uint64(client), 0))
			for call := range calls {
				g, ready := c.join(string(rune('a'+client%7)), walkClasses[r.IntN(2)], r.IntN(4))
				entry := c.queue.Push(&g.Waiter, many, c.now)
				if call == 0 {
					come.Done()
				}
				if entry == Waiting {
					if r.IntN(4) > 0 {
						select {
						case <-ready:
						case <-time.After(20 * time.Second):
							t.Error("one is forgotten")
							return
						}
					}
					if c.queue.Remove(&g.Waiter, c.now) {
						left.Add(1)
						c.queue.Settle(&g.Waiter, 0)
						continue
					}
				}
				select {
				case <-ready:
				default:
					t.Error("one that is said to have its place was not told")
				}
				served.Add(1)
				c.mu.Lock()
				e := g.at
				if e == nil || e.open > e.slots {
					t.Errorf("%d are at an endpoint for %d", e.open, e.slots)
				}
				c.mu.Unlock()
				c.queue.Settle(&g.Waiter, float64(r.IntN(300)))
				c.change(e, func() { e.open-- })
			}
		})
	}
	come.Wait()
	for _, e := range c.ends {
		for range e.slots {
			c.change(e, func() { e.open-- })
		}
	}
	stop := make(chan struct{})
	var weather sync.WaitGroup
	weather.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			e := c.ends[1+i%3] // the first stays
			c.change(e, func() { e.down = i/3%2 == 0 })
			c.queue.Status(c.now)
			c.queue.Expected(interactive, "a", c.now)
			c.queue.Full(interactive, "a", many)
		}
	})
	done.Wait()
	close(stop)
	weather.Wait()
	c.check()
	if n := served.Load() + left.Load(); n != clients*calls || served.Load() == 0 || left.Load() == 0 {
		t.Errorf("%d of %d calls ended: %d served, %d left", n, clients*calls, served.Load(), left.Load())
	}
	for _, e := range c.ends {
		if e.open != 0 {
			t.Errorf("%d places are not given back", e.open)
		}
	}
	if c.queue.Len() != 0 {
		t.Errorf("%d wait", c.queue.Len())
	}
}
