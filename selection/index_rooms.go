package selection

// rooms keeps the index from believing more of an endpoint than its KV cache can
// hold. Engines evict what was used longest ago, so it is enough to know since
// when an endpoint has been given a whole cache's worth of prompts that were new
// to it: what it was last seen to use before that is gone.
//
// What it generates and what it uses again takes room too, so this is the most
// that can still be there; usage.cached_tokens corrects the rest.
type rooms map[uint32]*room

// room is one endpoint's cache, filled by prompts. Bytes stand for tokens, at the
// request's own ratio.
type room struct {
	filled int64 // bytes of new prompt since it began
	marks  [marksMax]mark
	first  int // index of the oldest mark
	n      int
	since  uint32 // what was used before this tick is gone; 0 for nothing
}

// mark is how far a room was filled at a tick.
type mark struct {
	tick   uint32
	filled int64
}

const (
	marksMax = 64

	// markShare is the part of a cache between two marks, and with it how
	// precisely the age of what was displaced is known.
	markShare = 32

	// roomsMax bounds how many caches are kept. Restarts leave old ones behind.
	roomsMax = 8192
)

// since returns the tick before which the cache's entries no longer count.
func (rs rooms) since(cache uint32) uint32 {
	if r := rs[cache]; r != nil {
		return r.since
	}
	return 0
}

// fill notes that the cache, which has room for that many bytes, took in fresh
// ones. Nothing is known of a cache whose size is not.
func (rs *rooms) fill(cache uint32, size, fresh int64, tick uint32) {
	if size <= 0 || fresh <= 0 {
		return
	}
	if *rs == nil || len(*rs) >= roomsMax {
		*rs = make(rooms)
	}
	r := (*rs)[cache]
	if r == nil {
		r = new(room)
		(*rs)[cache] = r
	}
	if r.n == 0 || r.filled-r.marks[(r.first+r.n-1)%marksMax].filled >= size/markShare {
		r.mark(tick)
	}
	r.filled += fresh
	for r.n > 0 && r.filled-r.marks[r.first].filled > size {
		r.since = r.marks[r.first].tick
		r.first, r.n = (r.first+1)%marksMax, r.n-1
	}
}

func (r *room) mark(tick uint32) {
	if r.n == marksMax {
		r.first, r.n = (r.first+1)%marksMax, r.n-1
	}
	r.marks[(r.first+r.n)%marksMax] = mark{tick, r.filled}
	r.n++
}
