package baseline

import "github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"

// roundRobin takes one server after the other. It is what Kubernetes services and
// most proxies do unless told otherwise.
type roundRobin struct{ next int }

func (r *roundRobin) Pick(v *virtual.View) int {
	n := r.next % len(v.Servers)
	r.next = n + 1
	return n
}
