package baseline

import "github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"

// least returns the server of the lowest cost, one of them at random where several
// have it: always taking the first would send bursts to it.
func least(v *virtual.View, cost func(i int, s *virtual.Server) float64) int {
	best, ties := 0, 0
	var lowest float64
	for i := range v.Servers {
		c := cost(i, &v.Servers[i])
		switch {
		case i == 0 || c < lowest:
			best, lowest, ties = i, c, 1
		case c == lowest:
			// The k-th of equals takes the place with a probability of 1/k.
			if ties++; v.Rand.IntN(ties) == 0 {
				best = i
			}
		}
	}
	return best
}

func open(_ int, s *virtual.Server) float64 { return float64(s.Open) }

// uncached is how many tokens of the request the server would have to compute.
func uncached(v *virtual.View, s *virtual.Server) int { return max(0, v.Ask.Input-s.Match) }
