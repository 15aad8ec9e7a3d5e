package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// pool makes the servers of -engine: one name for all, or a list with how many
// there are of each, like 4*8b-h100,4*8b-a100.
func (o *options) pool() ([]engine.Config, error) {
	items := strings.Split(o.engine, ",")
	var engines []engine.Config
	counted := len(items) > 1
	for _, item := range items {
		name, n := strings.TrimSpace(item), 1
		if count, rest, found := strings.Cut(name, "*"); found {
			counted = true
			var err error
			if n, err = strconv.Atoi(strings.TrimSpace(count)); err != nil || n < 1 || n > maxServers {
				return nil, fmt.Errorf("-engine %q: %q is not a number of servers; write for example 4*8b-h100,4*8b-a100", o.engine, count)
			}
			name = strings.TrimSpace(rest)
		}
		c, ok := engine.Preset(name)
		if !ok {
			return nil, fmt.Errorf("-engine %q: there is no engine %q; have %s", o.engine, name, strings.Join(engine.PresetNames(), ", "))
		}
		if !counted {
			n = o.replicas
		}
		if o.kv > 0 {
			c.KVTokens = o.kv
		}
		if o.block > 0 {
			c.BlockSize = o.block
		}
		c.Costs.Pair *= o.attention
		c.Costs.Context *= o.attention
		if _, err := engine.New(c); err != nil {
			return nil, fmt.Errorf("-engine %q with -kv, -block and -attention as given: %w", o.engine, err)
		}
		for range n {
			engines = append(engines, c)
		}
	}
	if counted && o.set["replicas"] && o.replicas != len(engines) {
		return nil, fmt.Errorf("-engine %q has %d servers and -replicas says %d: leave -replicas out", o.engine, len(engines), o.replicas)
	}
	if len(engines) > maxServers {
		return nil, fmt.Errorf("-engine %q has %d servers; the limit is %d", o.engine, len(engines), maxServers)
	}
	return engines, nil
}

// memory is what the servers' caches hold together, in tokens.
func memory(engines []engine.Config) (tokens int) {
	for i := range engines {
		tokens += engines[i].KVTokens
	}
	return tokens
}

// fastest is an engine that is in nothing slower or smaller than any of them, and
// whether they are all alike. No pool of them beats one of as many of these.
func fastest(engines []engine.Config) (best engine.Config, alike bool) {
	best, alike = engines[0], true
	for _, c := range engines[1:] {
		alike = alike && c.Costs == best.Costs && c.KVTokens == best.KVTokens && c.MaxBatchedTokens == best.MaxBatchedTokens
		b, k := &best.Costs, c.Costs
		b.Base, b.Floor, b.Weights = min(b.Base, k.Base), min(b.Floor, k.Floor), min(b.Weights, k.Weights)
		b.Token, b.Pair = min(b.Token, k.Token), min(b.Pair, k.Pair)
		b.Context, b.Sequence = min(b.Context, k.Context), min(b.Sequence, k.Sequence)
		best.KVTokens = max(best.KVTokens, c.KVTokens)
		best.MaxSeqs = max(best.MaxSeqs, c.MaxSeqs)
		best.MaxBatchedTokens = max(best.MaxBatchedTokens, c.MaxBatchedTokens)
	}
	return best, alike
}
