package virtual

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/queue"
)

// The classes of the service, as the options have them by default.
var (
	interactive = &queue.Class{Name: "interactive", MaxWait: 30 * time.Second}
	background  = &queue.Class{Name: "background", Rank: 1, Share: 0.05, Saturation: 1, MaxWait: 15 * time.Minute}
	nobody      = &guest{class: interactive}
)

// leastConn is Caddy's least_conn: the server with the fewest open requests, any
// of them where several have as few.
type leastConn struct{}

func newLeastConn(w *world) { w.router = newRival(w.sim, 1, leastConn{}, 1, 0, false) }

func (leastConn) Pick(v *View) int {
	best, equals := 0, 0
	for i := range v.Servers {
		n := v.Servers[i].Open
		if n < v.Servers[best].Open {
			best, equals = i, 0
		}
		if n == v.Servers[best].Open {
			if equals++; v.Rand.IntN(equals) == 0 {
				best = i
			}
		}
	}
	return best
}
