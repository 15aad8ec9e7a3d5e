package bound

import (
	"math"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// femto is a femtosecond count. The smallest cost coefficients are picoseconds per
// token, so the engine sums in femtoseconds, and so does this package. 63 bits of
// them last for two and a half hours, far beyond one request alone on an engine.
type femto = int64

const femtoPerNano = 1_000_000

// prices are engine.Costs in femtoseconds, rounded as the engine rounds them.
type prices struct {
	base, floor, weights, token, pair, context, sequence femto
}

func newPrices(c engine.Costs) prices {
	fs := func(ms float64) femto { return femto(math.Round(ms * 1e12)) }
	return prices{
		base:     fs(c.Base),
		floor:    fs(c.Floor),
		weights:  fs(c.Weights),
		token:    fs(c.Token),
		pair:     fs(c.Pair),
		context:  fs(c.Context),
		sequence: fs(c.Sequence),
	}
}

// step is what a step with so many tokens of a single sequence costs, but for its
// pairs and its context.
func (p *prices) step(tokens int) femto {
	return p.base + max(p.floor, p.weights+p.token*femto(tokens)) + p.sequence
}

// pairs is what attention costs over a prompt of which some tokens are found. It
// does not depend on how the rest is cut into chunks.
func (p *prices) pairs(input, found int) femto {
	return p.pair * femto(input-found) * femto(input+found) / 2
}

// contexts is what it costs to read the contexts of all steps that only decode, of
// one request: the first reads the prompt, each further one a token more.
func (p *prices) contexts(input, output int) femto {
	n := femto(output - 1)
	return p.context * (n*femto(input) + n*(n-1)/2)
}
