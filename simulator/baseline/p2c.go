package baseline

import "github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"

// twoChoices draws two servers and takes the one with fewer open requests, by the
// gateway's own count (Mitzenmacher, "The Power of Two Choices in Randomized Load
// Balancing", 2001; power_of_two of SGLang's gateway).
type twoChoices struct{}

func (*twoChoices) Pick(v *virtual.View) int {
	n := len(v.Servers)
	a := v.Rand.IntN(n)
	if n == 1 {
		return a
	}
	b := v.Rand.IntN(n - 1)
	if b >= a {
		b++
	}
	if v.Servers[b].Open < v.Servers[a].Open {
		return b
	}
	return a
}
