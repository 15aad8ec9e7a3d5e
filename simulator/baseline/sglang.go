package baseline

import "github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"

// sglang is cache_aware of SGLang's router and model gateway
// (sgl-router/src/policies/cache_aware.rs). The pool is out of balance when the
// open requests of its servers differ by more than abs, and the most are more than
// rel times the fewest: then the least loaded server is taken. Else it is the one
// that the longest part of the prompt was sent to before, if that is more than the
// threshold of it, and the least loaded one if it is not, as in newer versions;
// older ones took the server of the smallest tree then, whatever its load.
//
// Two sets of defaults are documented, the library's (0.5, 32, 1.1) and the
// command's (0.3, 64, 1.5). These are the library's, which do better on every trace
// with load enough to tell. Both leave the tree far larger than a server's cache;
// here it is as large, which does better too.
type sglang struct {
	threshold float64
	abs       int
	rel       float64
}

func newSGLang() virtual.Strategy { return &sglang{threshold: 0.5, abs: 32, rel: 1.1} }

func (g *sglang) Pick(v *virtual.View) int {
	low, high, match := v.Servers[0].Open, v.Servers[0].Open, 0
	for i := range v.Servers {
		s := &v.Servers[i]
		low, high, match = min(low, s.Open), max(high, s.Open), max(match, s.Match)
	}
	if high-low > g.abs && float64(high) > g.rel*float64(low) {
		return least(v, open)
	}
	if float64(match) > g.threshold*float64(v.Ask.Input) {
		return least(v, func(_ int, s *virtual.Server) float64 { return -float64(s.Match) })
	}
	return least(v, open)
}
