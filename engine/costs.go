package engine

import (
	"fmt"
	"math"
	"time"
)

// APIOverhead is the time that an engine's HTTP front adds to a request before
// the scheduler sees it. A Replica does not charge it: a caller that wants
// time to first token as a client sees it adds it once per request; studies of
// routing alone leave it out.
const APIOverhead = 15 * time.Millisecond

// Costs are the coefficients of the time that one step takes, in milliseconds:
//
//	T = Base + max(Floor, Weights + Token·N) + Pair·Σ n(c + n/2) + Context·Σ c + Sequence·R
//
// N counts all tokens in the step and R its sequences; n is the length of a
// prefill chunk and c the context already computed. The Pair sum runs over
// prefill chunks, the Context sum over every sequence in the step.
type Costs struct {
	// Base is paid by every step: scheduling, sampling, launches.
	Base float64
	// Floor is the time to stream the weights once from memory; no step's
	// linear layers are faster.
	Floor float64
	// Weights and Token are the straight line that the linear layers follow
	// once there are tokens enough to keep the accelerator busy.
	Weights float64
	Token   float64
	// Pair is the price of one pair of query and key in prefill attention.
	Pair float64
	// Context is the price of reading one token's KV entry.
	Context float64
	// Sequence is the bookkeeping per sequence in the step.
	Sequence float64
}

// femtoseconds per millisecond. The smallest coefficients are picoseconds per
// token; in femtoseconds they are whole numbers, and a step of an hour still
// fits in 63 bits.
const femtoPerMilli = 1e12

const femtoPerNano = 1_000_000

// maxStep bounds the slowest step a configuration may lead to, so that sums in
// femtoseconds cannot overflow.
const maxStep = 4000 * time.Second

// rates are Costs as whole femtoseconds.
type rates struct {
	base, floor, weights, token, pair, context, sequence int64
}

// Load is what a step has to do, as far as its duration may depend on it.
type Load struct {
	// PrefillTokens and DecodeTokens are the tokens to compute, Sequences the
	// number of sequences they belong to.
	PrefillTokens, DecodeTokens, Sequences int
	// Context is the sum, over the sequences, of the tokens computed before.
	Context int64
	// Pairs is twice the sum of n(c + n/2) over prefill chunks of n tokens
	// with c before them, which is a whole number.
	Pairs int64
	// HeldTokens is the KV memory that sequences hold, KVTokens all there is;
	// both in tokens and in whole blocks.
	HeldTokens, KVTokens int
}

func (c Costs) rates() (rates, error) {
	var r rates
	for _, f := range []struct {
		name string
		ms   float64
		to   *int64
	}{
		{"base", c.Base, &r.base},
		{"floor", c.Floor, &r.floor},
		{"weights", c.Weights, &r.weights},
		{"token", c.Token, &r.token},
		{"pair", c.Pair, &r.pair},
		{"context", c.Context, &r.context},
		{"sequence", c.Sequence, &r.sequence},
	} {
		fs := math.Round(f.ms * femtoPerMilli)
		if !(fs >= 0 && fs <= 1e18) {
			return rates{}, fmt.Errorf("checking step costs: %s of %v ms is out of range", f.name, f.ms)
		}
		*f.to = int64(fs)
	}
	return r, nil
}

// duration is the time the step takes, rounded to the nanosecond.
func (r *rates) duration(l *Load) time.Duration {
	fs := r.base + max(r.floor, r.weights+r.token*int64(l.PrefillTokens+l.DecodeTokens)) +
		r.pair*l.Pairs/2 + r.context*l.Context + r.sequence*int64(l.Sequences)
	return time.Duration((fs + femtoPerNano/2) / femtoPerNano)
}
