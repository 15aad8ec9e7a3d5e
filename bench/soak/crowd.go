//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/soak/truth"
)

// crowd is all clients: requests come at random times at a rate, whatever becomes
// of those before, as long as there are not too many.
type crowd struct {
	book    *book
	clients *clients
	url     string
	rate    float64 // requests a second
	most    int     // open at a time

	mu   sync.Mutex
	rnd  *rand.Rand
	all  sync.WaitGroup
	open atomic.Int64
	sent atomic.Int64
	held atomic.Int64 // requests that were not sent, because too many were open
}

// run sends requests until done is closed. It returns before they have ended.
func (c *crowd) run(done <-chan struct{}) {
	next := time.Now()
	for {
		c.mu.Lock()
		next = next.Add(time.Duration(c.rnd.ExpFloat64() / c.rate * float64(time.Second)))
		c.mu.Unlock()
		if late := time.Since(next); late > time.Second {
			next = time.Now() // the machine was busy: nothing is made up for
		}
		select {
		case <-done:
			return
		case <-time.After(time.Until(next)):
			c.send()
		}
	}
}

// burst sends many at once.
func (c *crowd) burst(n int) {
	for range n {
		c.send()
	}
}

// send sends a request, and another one if that was turned away.
func (c *crowd) send() {
	if c.open.Load() >= int64(c.most) {
		c.held.Add(1)
		return
	}
	c.open.Add(1)
	c.mu.Lock()
	p := drawPlan(c.rnd, c.id())
	c.mu.Unlock()
	c.all.Go(func() {
		defer c.open.Add(-1)
		for {
			r := c.clients.ask(c.url, p)
			c.book.end(r)
			if r.End != truth.TurnedAway {
				return
			}
			c.mu.Lock()
			p = drawPlan(c.rnd, c.id())
			c.mu.Unlock()
		}
	})
}

// id names the next request.
func (c *crowd) id() string { return fmt.Sprintf("r%d", c.sent.Add(1)) }
