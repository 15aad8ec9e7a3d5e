package engine

import "math"

// lookup is what has to be remembered of looking for a waiting sequence's
// prefix, so that looking again costs next to nothing while nothing has
// changed. Memory and store give up blocks in the order of their stamps, and a
// block's stamp only grows: as long as neither has given up one with a stamp as
// high as the lowest among those found, all of them are where they were.
type lookup struct {
	local, stored int64 // lowest stamps
	published     int64 // the memory's count when blocks were last missing in it
}

// find brings a waiting sequence's list of blocks up to date: the leading ones
// that memory holds already, and none in place of one that only the shared
// store was seen to have.
func (r *Replica) find(s *sequence) {
	store := r.config.Store
	if r.pool.horizon >= s.lookup.local || store != nil && store.horizon >= s.lookup.stored {
		s.blocks = s.blocks[:0]
	}
	if len(s.blocks) == 0 {
		s.lookup = lookup{math.MaxInt64, math.MaxInt64, r.pool.published}
	}
	limit := min(len(s.Blocks), s.target()/r.config.BlockSize)
	for _, id := range s.Blocks[len(s.blocks):limit] {
		b, ok := r.pool.index.get(id)
		switch {
		case ok:
			s.lookup.local = min(s.lookup.local, r.pool.stampOf(b))
		case store == nil:
			return
		default:
			n, ok := store.index.get(id)
			if !ok {
				return
			}
			s.lookup.stored = min(s.lookup.stored, store.stampOf(n))
		}
		s.blocks = append(s.blocks, b)
	}
}

// fits reports whether there is memory for a waiting sequence that needs so
// many blocks beyond those found, and how many of these it has to fetch.
func (r *Replica) fits(s *sequence, need int) (fetch int, ok bool) {
	free := r.pool.available() - need
	for _, b := range s.blocks {
		switch {
		case b == none:
			fetch++
		case r.pool.blocks[b].refs == 0:
			free-- // idle ones count as available until they are held
		}
	}
	if fetch == 0 || free < 0 || s.lookup.published == r.pool.published {
		return fetch, free >= fetch
	}
	s.lookup.published = r.pool.published
	for i, b := range s.blocks {
		if b != none {
			continue
		}
		// Some may have come to memory since.
		if b, ok := r.pool.index.get(s.Blocks[i]); ok {
			s.blocks[i] = b
			s.lookup.local = min(s.lookup.local, r.pool.stampOf(b))
			fetch--
			if r.pool.blocks[b].refs == 0 {
				free--
			}
		}
	}
	return fetch, free >= fetch
}

// hold takes hold of what was found. What is in memory comes first, lest the
// blocks to be fetched push it out.
func (r *Replica) hold(s *sequence, fetch int) {
	for _, b := range s.blocks {
		if b != none {
			r.pool.hold(b)
		}
	}
	if r.config.Store == nil {
		return
	}
	r.config.Store.touch(s.Blocks[:len(s.blocks)])
	if fetch == 0 {
		return
	}
	for i, b := range s.blocks {
		if b == none {
			s.blocks[i] = r.pool.take()
			r.pool.publish(s.blocks[i], s.Blocks[i])
		}
	}
}

// publish makes the full blocks among a sequence's first tokens findable.
func (r *Replica) publish(s *sequence, tokens int) {
	from, full := s.published, min(tokens/r.config.BlockSize, len(s.Blocks), len(s.blocks))
	if from >= full {
		return
	}
	for i := from; i < full; i++ {
		r.pool.publish(s.blocks[i], s.Blocks[i])
	}
	s.published = full
	if r.config.Store != nil {
		r.config.Store.put(s.Blocks[from:full])
	}
}

// release gives up a running sequence's memory. Its content may stay findable.
func (r *Replica) release(s *sequence) {
	r.pool.release(s.blocks)
	if r.config.Store != nil {
		r.config.Store.touch(s.Blocks[:s.published])
	}
}
