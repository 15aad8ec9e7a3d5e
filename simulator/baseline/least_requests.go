package baseline

import "github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"

// leastRequests takes the server with the fewest open requests by the gateway's
// own count: KubeAI's LeastLoad, AIBrix' least-request, Caddy's least_conn.
type leastRequests struct{}

func (*leastRequests) Pick(v *virtual.View) int { return least(v, open) }
