package baseline

import "github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"

// lpwl is LPWL of the public log gahow/agentic-kvc: the fewest prefill tokens with
// the request, those pending and those of it that are not cached there.
type lpwl struct{}

func (*lpwl) Pick(v *virtual.View) int {
	return least(v, func(_ int, s *virtual.Server) float64 {
		return float64(s.Pending + uncached(v, s))
	})
}
