package bound

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// Times are the least that one request can take.
type Times struct {
	// Found is the most prompt tokens that earlier requests can have left in a
	// cache, in whole blocks of the engine. One that waits long enough may find
	// more, but has lost more time by then.
	Found int
	// TTFT is from its arrival to its first token, E2E to its last.
	TTFT, E2E time.Duration
}

// TPOT is the mean time between the tokens of an answer of that length. It is 0
// for a single token.
func (t Times) TPOT(output int) time.Duration {
	if output < 2 {
		return 0
	}
	return (t.E2E - t.TTFT) / time.Duration(output-1)
}

// Solo tells how fast each request is on an idle engine that holds as much of its
// prompt as occurred in earlier requests. No pool serves it faster: to wait until
// somebody else has computed more of it takes no less time than to compute it. The
// bound holds for each request, so also for means and quantiles.
//
// It is in closed form from the engine's cost formula, and by intention a little
// below what an idle engine takes: under load, others may take from a chunk what
// makes a later step read a shorter context, and to find less of a very short
// prompt may be faster than to find all. The difference is microseconds for short
// prompts and, with the presets, below half a millisecond per chunk after the
// first.
func Solo(t *trace.Trace, c engine.Config) []Times {
	l := newLayout(t)
	found := prefixes(l)
	if closed(t) {
		found = anyOrder(l)
	}
	p := newPrices(c.Costs)
	times := make([]Times, len(found))
	for i, n := range found {
		r := &t.Requests[i]
		times[i] = solo(&p, &c, r, inBlocks(n, r.Input, c.BlockSize))
	}
	return times
}

func solo(p *prices, c *engine.Config, r *trace.Request, found int) Times {
	first := leastPrefill(p, c, r.Input, found)
	for n := found - found%c.BlockSize; n >= 0; n -= c.BlockSize {
		first = min(first, leastPrefill(p, c, r.Input, n))
	}
	steps := femto(r.Output - 1)
	rest := steps*(p.step(1)-femtoPerNano/2) + p.contexts(r.Input, r.Output)
	return Times{
		Found: found,
		TTFT:  nanos(first),
		E2E:   nanos(first + rest),
	}
}

// inBlocks is how many tokens the engine can reuse of so many that are there: those
// of full blocks. Where it finds all, it still computes the last token.
func inBlocks(found, input, block int) int {
	if found == input-1 && input%block == 0 {
		return found
	}
	return found - found%block
}

// chunks is in how many steps an idle engine prefills so many tokens.
func chunks(c *engine.Config, tokens int) int {
	return (tokens + c.MaxBatchedTokens - 1) / c.MaxBatchedTokens
}

// prefill is the time an idle engine takes for a prompt, of which it finds some
// tokens in its cache: full chunks and, at the end, what remains.
func prefill(p *prices, c *engine.Config, input, found int) femto {
	m, b := chunks(c, input-found), c.MaxBatchedTokens
	last := input - found - (m-1)*b
	contexts := m*found + b*(m*(m-1)/2)
	return femto(m-1)*p.step(b) + p.step(last) + p.pairs(input, found) + p.context*femto(contexts)
}

// leastPrefill is prefill with two things taken off that load may spare. Steps read
// the context that earlier ones computed; it would be shortest if the short chunk
// came first. And each step is rounded to a nanosecond.
func leastPrefill(p *prices, c *engine.Config, input, found int) femto {
	m, b := chunks(c, input-found), c.MaxBatchedTokens
	spare := m*b - (input - found)
	return prefill(p, c, input, found) - p.context*femto((m-1)*spare) - femto(m)*(femtoPerNano/2)
}

func nanos(fs femto) time.Duration { return time.Duration(max(fs, 0) / femtoPerNano) }
