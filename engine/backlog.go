package engine

// Match is the number of prompt tokens that a prompt of these blocks would find
// if it were scheduled now: its leading blocks that are in the cache or in the
// shared store. Blocks that nothing but the step in flight computes count only
// where they are published early.
func (r *Replica) Match(blocks []uint64) int {
	n, store := 0, r.config.Store
	for _, id := range blocks {
		// The store first: it has nearly all that a replica has.
		if store == nil || !store.has(id) {
			if _, ok := r.pool.index.get(id); !ok {
				break
			}
		}
		n++
	}
	return n * r.config.BlockSize
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
			r.find(s)
			n += s.Input - min(len(s.blocks)*r.config.BlockSize, s.Input-1)
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
