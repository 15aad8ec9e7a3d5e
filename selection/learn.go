package selection

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// maxLearned bounds how much of one prompt is remembered, and so how long the
// index is locked for it: four megabytes, or a million tokens, which is more
// than engines take.
const maxLearned = 4096

// kept is what must be known of the endpoint chosen to teach the index: read
// under the pool's lock, used after it.
type kept struct {
	cache  uint32
	room   float64 // its KV cache in tokens, or Unknown
	proved int     // prompt tokens that were proved to be in it
}

func (ch *choice) keep(s *seat) kept {
	if s == nil {
		return kept{}
	}
	k := kept{cache: s.endpoint.CacheID(), room: llmlb.Unknown, proved: s.proved}
	if sig, ok := s.endpoint.Ledger().Signals(); ok {
		k.room = sig.KVCapacity
	}
	return k
}

// remember marks the Call's blocks as about to be computed at its endpoint, has
// the first token make that a fact, and what the engine then says of its cache
// correct it. The cache is the one that the engine had when the Call was sent:
// should it restart in between, nothing is learned of the new one.
func (k kept) remember(c *llmlb.Call, ix *index, now time.Time) {
	c.Learn, c.Correct = nil, nil
	if len(c.Blocks) == 0 {
		return
	}
	blocks := c.Blocks[:min(len(c.Blocks), maxLearned)]
	room, beyond := int64(llmlb.Unknown), int64(0)
	if k.room > 0 {
		ratio := float64(c.PromptBytes) / float64(c.InputTokens)
		room = int64(k.room * ratio)
		// The end of the prompt and the answer are in the cache as well.
		beyond = int64(c.PromptBytes-llmlb.BlockEnd(len(blocks))) + int64(float64(c.ExpectedOutput())*ratio)
	}
	trail := ix.learnSent(blocks, k.cache, room, now)
	c.Learn = func(now time.Time) {
		ix.fill(k.cache, room, beyond, now) // which is evicted first, and so used first
		ix.learnComputed(trail, blocks, k.cache, room, now)
	}
	if k.proved > 0 {
		c.Correct = func(cached int) { k.correct(c, ix, blocks, cached) }
	}
}

// missShare is the share of a believed match that the engine must have found for
// the match to have been one. Engines cache in blocks of their own, and our count
// of tokens is an estimate, so that a few are always missing.
const missShare = 0.5

// correct removes what the index believed of the endpoint and the engine did not
// find. The Call has had it computed again since, but a cache that has lost it
// once is too small or too busy for it, or is none.
func (k kept) correct(c *llmlb.Call, ix *index, blocks []uint64, cached int) {
	if float64(cached) >= missShare*float64(k.proved) {
		return
	}
	held := 0
	for held < len(blocks) && c.CoveredTokens(held+1) <= cached {
		held++
	}
	ix.forget(blocks[held:], k.cache)
}
