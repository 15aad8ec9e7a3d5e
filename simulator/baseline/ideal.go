package baseline

import (
	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// Ideal makes the placement of the ideal pool: min_ttft. It is to be run with
// perfect signals, on the engines of IdealPool.
func Ideal() virtual.Strategy { return new(minTTFT) }

// IdealPool returns the engines with one prefix cache that all of them share
// beside their own, as large as all their KV memory together, or infinite: what one
// has computed, all find, and fetching it costs nothing. No balancer can have
// that; it shows what there is to gain. The cache fills as the engines run, so each
// run needs a pool of its own. All engines must have blocks of the same size.
func IdealPool(engines []engine.Config, infinite bool) []engine.Config {
	if len(engines) == 0 {
		return nil
	}
	tokens := 0
	if !infinite {
		for _, e := range engines {
			tokens += e.KVTokens
		}
	}
	store := engine.NewStore(tokens, engines[0].BlockSize)
	pool := make([]engine.Config, len(engines))
	for i, e := range engines {
		e.Store = store
		pool[i] = e
	}
	return pool
}
