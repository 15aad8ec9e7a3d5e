package health

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A pool that is renamed or removed while streams run there: the limit of a drain
// comes all the same, and what is left is cut. Nothing stays behind.
func TestALimitOutlivesTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(0, 0, 0)))
		c := newConfig(t, nil)
		p := c.watch(t, settings(t, net, "a:1")).Pool()
		c.start(t)
		time.Sleep(2 * time.Second)
		e := p.Endpoints()[0]
		p.Lock()
		open := p.Reserve(e, time.Now(), llmlb.Work{Uncached: 100, Output: 100})
		p.Unlock()
		cut := e.Cut()
		e.Drain(time.Now(), llmlb.DrainOrder{Limit: 10 * time.Second, Cut: true})
		ordered := time.Now()
		c.end(t)
		select {
		case <-cut:
		case <-time.After(time.Minute):
			t.Fatal("what is open is never cut")
		}
		if took := time.Since(ordered); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("cut after %v", took)
		}
		open.End(time.Now())
		time.Sleep(2 * time.Second) // if it is looked at the pool for ever, the test does not end
	})
}
