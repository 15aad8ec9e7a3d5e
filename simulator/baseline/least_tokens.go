package baseline

import "github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"

// leastTokens takes the server with the fewest prompt tokens that wait for their
// prefill, whatever it has cached of this prompt. In SGLang's gateway there is
// such a rule on a branch, dp_min_token.
type leastTokens struct{}

func (*leastTokens) Pick(v *virtual.View) int {
	return least(v, func(_ int, s *virtual.Server) float64 { return float64(s.Pending) })
}
