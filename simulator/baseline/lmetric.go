package baseline

import "github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"

// lmetric is LMetric (arXiv 2603.15202): the lowest product of the prefill tokens
// that the server would have with the request, and of the requests it would have
// at once. There is nothing to tune.
type lmetric struct{}

func (*lmetric) Pick(v *virtual.View) int {
	return least(v, func(_ int, s *virtual.Server) float64 {
		return float64(s.Pending+uncached(v, s)) * float64(s.Open+1)
	})
}
