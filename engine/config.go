package engine

import (
	"fmt"
	"time"
)

// maxKVTokens keeps the block table of one replica at a sane size in memory.
const maxKVTokens = 1 << 26

// Config describes one engine. Preset fills it in; every field may then be
// changed. All fields up to MaxBatchedTokens are required.
type Config struct {
	// Costs tell how long a step takes.
	Costs Costs
	// KVTokens is the capacity of the KV memory in tokens; what does not fill
	// a whole block is not used.
	KVTokens int
	// BlockSize is the number of tokens in a KV block.
	BlockSize int
	// MaxSeqs bounds the sequences that run at once (max_num_seqs).
	MaxSeqs int
	// MaxBatchedTokens bounds the tokens of one step and thereby the length of
	// a prefill chunk (max_num_batched_tokens).
	MaxBatchedTokens int
	// PublishEarly makes a block findable when the step that fills it is
	// scheduled, so that sequences admitted in that step share it already, as
	// vLLM V1 does. Default: findable when the step ends.
	PublishEarly bool
	// StepTime, if set, takes the place of Costs: it says how long a step with
	// this load takes, more than 0. It is there to compare this engine with
	// others that count time in another way. Default: Costs.
	StepTime func(Load) time.Duration
	// Store is a prefix cache that several replicas share beside their own.
	// Default: none.
	Store *Store
}

func (c Config) validate() error {
	for _, f := range []struct {
		name  string
		value int
		limit int
	}{
		{"kv tokens", c.KVTokens, maxKVTokens},
		{"block size", c.BlockSize, maxKVTokens},
		{"max sequences", c.MaxSeqs, 1 << 20},
		{"max batched tokens", c.MaxBatchedTokens, maxKVTokens},
	} {
		if f.value < 1 || f.value > f.limit {
			return fmt.Errorf("checking engine limits: %s of %d is not between 1 and %d", f.name, f.value, f.limit)
		}
	}
	if c.Store != nil && c.Store.blockSize != c.BlockSize {
		return fmt.Errorf("checking engine limits: blocks of %d tokens do not fit a store of blocks of %d", c.BlockSize, c.Store.blockSize)
	}
	if c.KVTokens < c.BlockSize {
		return fmt.Errorf("checking engine limits: kv tokens of %d hold no block of %d", c.KVTokens, c.BlockSize)
	}
	// In floating point, because whole numbers might overflow here: that is
	// what this test is for.
	kv, budget, seqs := float64(c.KVTokens), float64(c.MaxBatchedTokens), float64(c.MaxSeqs)
	k := c.Costs
	ms := k.Base + max(k.Floor, k.Weights+k.Token*budget) + k.Pair*budget*(kv+budget/2) +
		k.Context*kv*seqs + k.Sequence*seqs
	if ms > float64(maxStep.Milliseconds()) {
		return fmt.Errorf("checking engine limits: the slowest step would take %.0f s; the limit is %.0f s", ms/1000, maxStep.Seconds())
	}
	return nil
}

// Fits reports whether memory has room at all for a request of so many tokens, each at
// least 1. What does not fit is refused.
func (c Config) Fits(input, output int) bool {
	capacity := c.KVTokens / c.BlockSize * c.BlockSize
	// The last token is sampled and never computed, so it needs no memory.
	// The first comparison keeps the second from overflowing.
	return input <= capacity && output-1 <= capacity-input
}
