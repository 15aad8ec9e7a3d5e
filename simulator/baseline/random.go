package baseline

import "github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"

// random takes any server.
type random struct{}

func (*random) Pick(v *virtual.View) int { return v.Rand.IntN(len(v.Servers)) }
