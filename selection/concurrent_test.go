package selection

import (
	"fmt"
	"sync"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Hundreds of clients at once, while servers are scraped, drained, unreachable
// and back, and the index changes its size: nothing is torn, no place is given
// twice, and every reservation comes back.
func TestConcurrentChoices(t *testing.T) {
	w := newWorld(t, addresses(8)...)
	const limit = 20
	for i := range w.settings.Members {
		w.settings.Members[i].MaxConcurrent = limit
	}
	now := w.now
	stop := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			m := w.settings.Members[i%8]
			s := llmlb.NoSignals(now)
			s.Running, s.Waiting, s.ProcessStart = float64(i%9), float64(i%4), float64(i/4000)*10
			m.Endpoint.ObserveSignals(s)
			if i%5 == 0 {
				m.Endpoint.NotReached(now, "refused")
			} else {
				m.Endpoint.Reached(now)
			}
			if i%1000 == 0 {
				indexOf(w.pool).resize(int64(1+i/1000%2) << 20)
			}
		}
	})
	var clients sync.WaitGroup
	for client := range 200 {
		clients.Go(func() {
			for i := range 20 {
				c := llmlb.NewCall(w.pool, w.settings, now)
				c.Features = prompt(part{fmt.Sprint("preamble ", i%5), 1000}, part{fmt.Sprint(client, i), 100})
				if Grant(c, now) != Granted {
					continue
				}
				e := c.Lease.Endpoint()
				w.pool.Lock()
				p, d := e.Ledger().OwnCalls()
				w.pool.Unlock()
				if p+d > limit {
					t.Errorf("%d calls at an endpoint that takes %d", p+d, limit)
				}
				if i%3 != 0 {
					c.SawFirstToken(now)
				}
				c.EndAttempt(now, llmlb.Served)
			}
		})
	}
	clients.Wait()
	close(stop)
	background.Wait()
	for _, m := range w.settings.Members {
		if p, d := m.Endpoint.Ledger().OwnCalls(); p+d != 0 {
			t.Errorf("%s keeps %d calls", m.Address, p+d)
		}
	}
}
