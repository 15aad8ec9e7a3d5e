//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/soak/truth"
)

// Servers come in three kinds. Steady ones fail nothing and are only ever drained,
// one at a time, so that there is always somebody to serve a request. Victims fail
// some requests, and are killed and frozen too; guests are victims that come and go
// with the configuration.
const (
	steadyServers = 2
	victims       = 3
	guests        = 2

	// victimShare is how many of a million requests a victim fails.
	victimShare = 70_000
)

// moment is how long the gateway may take to keep to an order that it has
// confirmed: what was on its way to a server then still gets there.
const moment = time.Second

// chaos is everything that is done to the gateway and its servers.
type chaos struct {
	book   *book
	config *config
	crowd  *crowd

	steady, victims, guests []*server

	burst int // requests
	done  <-chan struct{}
	all   sync.WaitGroup

	mu     sync.Mutex
	failed []error // what was refused, and should not have been
}

// begin starts all that is done, until done is closed. What each of them does is
// undone before it ends.
func (c *chaos) begin(seed uint64) {
	for i, track := range []func(*rand.Rand) error{c.harm, c.harm, c.drain, c.reload, c.visit, c.flood} {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		c.all.Go(func() {
			for c.pause(time.Duration(1500+rnd.IntN(3500)) * time.Millisecond) {
				if err := track(rnd); err != nil {
					c.mu.Lock()
					c.failed = append(c.failed, err)
					c.mu.Unlock()
				}
			}
		})
	}
}

// pause waits, and says whether to go on.
func (c *chaos) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-c.done:
		return false
	}
}

// harm kills or freezes a victim, or has it fail all that it gets.
func (c *chaos) harm(rnd *rand.Rand) error {
	s := c.victims[rnd.IntN(len(c.victims))]
	if rnd.IntN(5) == 0 {
		s = c.guests[rnd.IntN(len(c.guests))]
	}
	if !s.busy.TryLock() {
		return nil
	}
	defer s.busy.Unlock()
	switch rnd.IntN(3) {
	case 0:
		over := c.book.begin(truth.Killed, s.name, 2*time.Second)
		defer over()
		s.kill()
		c.pause(time.Duration(200+rnd.IntN(4000)) * time.Millisecond)
		return s.start()
	case 1:
		over := c.book.begin(truth.Stopped, s.name, 2*time.Second)
		defer over()
		if err := s.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		c.pause(time.Duration(200+rnd.IntN(5000)) * time.Millisecond)
		return s.signal(syscall.SIGCONT)
	default:
		c.book.count("fails everything")
		s.fail(1e6)
		c.pause(time.Duration(500+rnd.IntN(3000)) * time.Millisecond)
		s.fail(s.share)
		return nil
	}
}

// drain has a server drained by an order in both pools, and resumed. Some orders
// cut what is left after a second.
func (c *chaos) drain(rnd *rand.Rand) error {
	everybody := append(append([]*server(nil), c.steady...), c.victims...)
	s := everybody[rnd.IntN(len(everybody))]
	query, cut := "", rnd.IntN(3) == 0
	if cut {
		query = "?limit=1s&cut=true"
	}
	path := func(pool string) string { return "/llmlb/pools/" + pool + "/endpoints/" + s.name + "/drain" }
	g := c.config.gateway
	if cut {
		over := c.book.begin(truth.Cut, s.name, 3*time.Second)
		defer over()
	}
	c.book.count("drain")
	drained := map[string]time.Time{}
	for _, pool := range []string{poolMain, poolOnce} {
		if _, err := g.ask(http.MethodPost, path(pool)+query, "", ""); err != nil {
			return fmt.Errorf("draining %s: %w", s.name, err)
		}
		drained[pool] = time.Now().Add(moment)
	}
	c.pause(time.Duration(1000+rnd.IntN(4000)) * time.Millisecond)
	for pool, from := range drained {
		c.book.note(truth.Spell{Kind: truth.Drained, Engine: s.name, Pool: pool, From: from, To: time.Now()})
		if _, err := g.ask(http.MethodDelete, path(pool), "", ""); err != nil {
			return fmt.Errorf("resuming %s: %w", s.name, err)
		}
	}
	return nil
}

// reload loads the configuration again, changed in some numbers, or one that must
// be refused.
func (c *chaos) reload(rnd *rand.Rand) error {
	if rnd.IntN(6) == 0 {
		c.book.count("bad reload")
		return c.config.spoil(rnd.IntN(3))
	}
	return c.load(func() { c.config.variant++ })
}

// load loads a changed configuration. The server of the one before goes on closing
// idle connections for as long as it has open ones.
func (c *chaos) load(how func()) error {
	over := c.book.begin(truth.Reload, "", 10*time.Second)
	defer over()
	return c.config.change(how)
}

// visit has a guest taken out of the configuration, or drained by it, and put back.
func (c *chaos) visit(rnd *rand.Rand) error {
	s := c.guests[rnd.IntN(len(c.guests))]
	list, kind := c.config.without, "taken out"
	if rnd.IntN(3) == 0 {
		list, kind = c.config.drains, "drain in the configuration"
	}
	c.book.count(kind)
	if err := c.load(func() { list[s.name] = true }); err != nil {
		return err
	}
	from := time.Now().Add(moment)
	c.pause(time.Duration(500+rnd.IntN(6000)) * time.Millisecond)
	for _, pool := range []string{poolMain, poolOnce} {
		c.book.note(truth.Spell{Kind: truth.Drained, Engine: s.name, Pool: pool, From: from, To: time.Now()})
	}
	return c.load(func() { delete(list, s.name) })
}

// flood has more clients come at once than there is room for.
func (c *chaos) flood(rnd *rand.Rand) error {
	if !c.pause(time.Duration(rnd.IntN(10_000)) * time.Millisecond) {
		return nil
	}
	c.book.count("burst")
	c.crowd.burst(c.burst)
	return nil
}

// end waits until all is undone, and returns what was refused.
func (c *chaos) end() error {
	c.all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.failed...)
}
