package baseline

import (
	"math"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

const (
	// aibrixImbalance is by how many the open requests may differ before the cache
	// no longer counts.
	aibrixImbalance = 8

	// aibrixSigmas is how many standard deviations above the mean a server with a
	// match may be.
	aibrixSigmas = 1
)

// aibrix is prefix-cache of AIBrix' gateway
// (pkg/plugins/gateway/algorithms/prefix_cache.go). While the most and the fewest
// open requests differ by more than 8, the least loaded server is taken. Else it
// is the one with the longest match, the less loaded of equals, among those whose
// open requests are at most the mean plus one standard deviation; and the least
// loaded where there is none. The counts are the gateway's own.
type aibrix struct{}

func (*aibrix) Pick(v *virtual.View) int {
	low, high, sum, squares := math.MaxInt, 0, 0.0, 0.0
	for i := range v.Servers {
		n := v.Servers[i].Open
		low, high = min(low, n), max(high, n)
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if high-low > aibrixImbalance {
		return least(v, open)
	}
	mean := sum / float64(len(v.Servers))
	limit := mean + aibrixSigmas*math.Sqrt(max(0, squares/float64(len(v.Servers))-mean*mean))
	best := -1
	for i := range v.Servers {
		s := &v.Servers[i]
		if s.Match == 0 || float64(s.Open) > limit {
			continue
		}
		if best < 0 || s.Match > v.Servers[best].Match ||
			s.Match == v.Servers[best].Match && s.Open < v.Servers[best].Open {
			best = i
		}
	}
	if best < 0 {
		return least(v, open)
	}
	return best
}
