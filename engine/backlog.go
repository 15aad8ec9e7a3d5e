package engine

import "math"

// Match is the number of prompt tokens that a prompt of these blocks would find
// if it were scheduled now: its leading blocks that are in the cache or in the
// shared store. Blocks that nothing but the step in flight computes count only
// where they are published early.
func (r *Replica) Match(blocks []uint64) int {
	var m match
	return r.extend(&m, blocks) * r.config.BlockSize
}

// Pending is the number of prompt tokens that the replica still has to compute
// for sequences without their first token: of running ones the rest, of waiting
// ones what they would not find now. What a step in flight computes counts
// until its End. The call takes time in proportion to the number of sequences.
func (r *Replica) Pending() int {
	n := 0
	for _, s := range r.running {
		if s.generated == 0 {
			n += s.Input - s.computed
		}
	}
	for s := r.waiting.first; s != nil; s = s.next {
		if s.generated == 0 {
			full := min(len(s.Blocks), s.Input/r.config.BlockSize)
			n += s.Input - min(r.extend(&s.match, s.Blocks[:full])*r.config.BlockSize, s.Input-1)
		}
	}
	return n
}

// Decoding is the number of running sequences that have produced their first
// token.
func (r *Replica) Decoding() int {
	n := 0
	for _, s := range r.running {
		if s.generated > 0 {
			n++
		}
	}
	return n
}

// match remembers how many leading blocks of a prompt were found, so that
// asking again costs next to nothing while all of them are still there. Memory
// and store give up blocks in the order of their stamps, and a block's stamp
// only grows: as long as neither has given up one of a stamp as high as the
// lowest among those found, all are there.
type match struct {
	found         int
	local, stored int64 // the lowest stamps of the blocks found
}

// extend brings a match of these blocks up to date and returns how many leading
// ones there are.
func (r *Replica) extend(m *match, blocks []uint64) int {
	store := r.config.Store
	if m.found == 0 || r.pool.horizon >= m.local || store != nil && store.horizon >= m.stored {
		*m = match{local: math.MaxInt64, stored: math.MaxInt64}
	}
	for _, id := range blocks[m.found:] {
		if b, ok := r.pool.index.get(id); ok {
			m.local = min(m.local, r.pool.stampOf(b))
		} else if store == nil {
			break
		} else if n, ok := store.index.get(id); ok {
			m.stored = min(m.stored, store.stampOf(n))
		} else {
			break
		}
		m.found++
	}
	return m.found
}
