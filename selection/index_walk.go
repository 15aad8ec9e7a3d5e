package selection

// holder is an endpoint that holds the beginning of a prompt: the first blocks
// of it, by what the index knows.
type holder struct {
	cache  uint32
	blocks int32 // believed
	proved int32 // those of them that a first token has proved
	since  use   // what it used before is gone
}

// holdersMax bounds how many endpoints one lookup tells apart: as many as are
// remembered for a block.
const holdersMax = slotsEach * levelsMax

// walk is one lookup. The hash of a block covers all before it, so the deepest
// block on which an endpoint is known tells how much it holds; engines evict from
// the tail as well.
type walk struct {
	ix      *index
	blocks  []uint64
	tick    uint32
	holders []holder
}

// run goes from the start and ends at the first block that nobody holds: for a
// prompt that is new to all it reads one line of memory. Searching by halves
// would be wrong, since eviction can leave holes.
//
// Where more endpoints hold a block than its first entry tells, it hears those
// only of the deepest such block and of the first, and of blocks between for as
// long as somebody's depth is open. Nearly always the same endpoints hold all of
// a system prompt.
func (w *walk) run() {
	first, last := -1, -1 // of the blocks with more entries
	t := &w.ix.table
	for i, h := range w.blocks {
		e := t.find(h)
		if e == nil {
			break
		}
		held := w.hear(e, i)
		if e.overflows() {
			if last = i; first < 0 {
				first = i
			}
			held = held || w.hearMore(i)
		}
		if !held {
			break
		}
	}
	if first < 0 {
		return
	}
	w.hearMore(last)
	if first < last {
		w.hearMore(first)
		w.between(first, last)
	}
}

// between hears blocks between two that have been heard. Nothing there is new
// unless somebody was known on the first of them and not below it.
func (w *walk) between(above, below int) {
	if below-above < 2 || !w.open(above) {
		return
	}
	middle := (above + below) / 2
	w.hearMore(middle)
	w.between(middle, below)
	w.between(above, middle)
}

func (w *walk) open(block int) bool {
	for i := range w.holders {
		if int(w.holders[i].blocks) == block+1 {
			return true
		}
	}
	return false
}

// hear takes in whom the entry tells to hold the block with that number, and
// reports whether anybody does.
func (w *walk) hear(e *entry, block int) (held bool) {
	at := -1 // block after block has the same holders in the same order
	holders, tick := w.holders, w.tick
	for i := range e.slots {
		s := e.slots[i]
		if s.stamp == 0 {
			break // slots are taken in their order
		}
		if s.cache == 0 || !s.valid(tick) {
			continue
		}
		if at++; at >= len(holders) || holders[at].cache != s.cache {
			at = w.holder(s.cache)
			holders = w.holders
		}
		h := &holders[at]
		if h.since != 0 && s.stamp.used(block).before(h.since) {
			continue // has been displaced there by what came after
		}
		held = true
		h.blocks = max(h.blocks, int32(block+1))
		if s.stamp.proved() {
			h.proved = max(h.proved, int32(block+1))
		}
	}
	return held
}

// hearMore takes in whom the block's further entries tell.
func (w *walk) hearMore(block int) (held bool) {
	hash := w.blocks[block]
	for range levelsMax - 1 {
		hash = overflow(hash)
		e := w.ix.table.find(hash)
		if e == nil {
			break
		}
		held = w.hear(e, block) || held
		if !e.overflows() {
			break
		}
	}
	return held
}

// holder returns the cache's place in the list. When there are too many to tell
// apart, the one that holds least is forgotten.
func (w *walk) holder(cache uint32) int {
	least := 0
	for i := range w.holders {
		if w.holders[i].cache == cache {
			return i
		}
		if w.holders[i].blocks < w.holders[least].blocks {
			least = i
		}
	}
	h := holder{cache: cache, since: w.ix.rooms.since(cache)}
	if len(w.holders) < holdersMax {
		w.holders = append(w.holders, h)
		return len(w.holders) - 1
	}
	w.holders[least] = h
	return least
}
