package selection

// rooms keep the index from believing more of an endpoint than its KV cache can
// hold. Engines evict what was used longest ago, so it is enough to know since
// when an endpoint has used a whole cache's worth of different prompts: what it
// was last seen to use before that is gone.
//
// What it generates takes room too, as much as is expected when its first token
// comes. usage.cached_tokens corrects the rest.
type rooms map[uint32]*room

// room is one endpoint's cache: its bytes of prompt by when they were last used.
// Bytes stand for tokens, at the requests' own ratio.
type room struct {
	marks [marksMax]mark // in the order of use
	n     int
	held  int64 // bytes of all marks
	size  int64 // bytes there is room for
	since use   // what was used before this is gone; 0 for nothing
}

// mark is how many bytes were last used from a moment on, up to the next mark's.
type mark struct {
	from  use
	bytes int64
}

// use is when a cache last used a block: a tick, and in its low bits how near the
// block is to the prompt's start, since engines evict the tail of a prompt first.
type use uint64

const (
	marksMax = 64

	// markShare is the part of a cache that is left to a mark before the next
	// begins, and with it how precisely the age of what was displaced is known:
	// less than half as many are held side by side as there are marks, so that
	// two neighbours can always be found which are small enough to be made one.
	markShare = 32

	// roomsMax bounds how many caches are kept, of a kilobyte each. Restarts leave
	// old ones behind.
	roomsMax = 4096

	depthBits = 12
	deepest   = 1<<depthBits - 1
	useBits   = tickBits + depthBits
)

// usedAt is when a prompt's block with that number was used.
func usedAt(tick uint32, number int) use {
	return use(tick&tickMask)<<depthBits | use(deepest-min(number, deepest))
}

// before reports whether u is earlier than v; the clock may have wrapped.
func (u use) before(v use) bool { return int64((u-v)<<(64-useBits)) < 0 }

// gone reports whether what was last used then is no longer in a cache of which
// only the uses since the other moment still count.
func (u use) gone(since use) bool { return since != 0 && u.before(since) }

// since returns the use before which the cache's entries no longer count.
func (rs rooms) since(cache uint32) use {
	if r := rs[cache]; r != nil {
		return r.since
	}
	return 0
}

// of returns the cache's room, or nil where nothing is known of its size. A new
// one takes the place of that which was used longest ago when there are too many.
func (rs *rooms) of(cache uint32, size int64) *room {
	if r := (*rs)[cache]; r != nil || size <= 0 {
		return r
	}
	if *rs == nil {
		*rs = make(rooms)
	}
	if len(*rs) >= roomsMax {
		rs.drop()
	}
	r := &room{size: size}
	(*rs)[cache] = r
	return r
}

func (rs *rooms) drop() {
	oldest, last := uint32(0), use(0)
	for cache, r := range *rs {
		switch u := r.last(); {
		case oldest == 0, u.before(last), u == last && cache < oldest:
			oldest, last = cache, u
		}
	}
	delete(*rs, oldest)
}

// last is when the newest mark begins.
func (r *room) last() use {
	if r.n == 0 {
		return 0
	}
	return r.marks[r.n-1].from
}

// measure says how many bytes a prompt's own ratio gives the cache room for. The
// room is the mean over what it holds: one prompt in another script must not push
// out half of the cache.
func (r *room) measure(size, bytes int64) {
	if size > 0 {
		r.size += int64(float64(size-r.size) * min(1, float64(bytes)/float64(size)))
	}
}

// use notes that the cache uses so many bytes now. Where it held them already,
// had is when it used them last.
func (r *room) use(bytes int64, now, had use, held bool) {
	if held {
		if i := r.place(had); i >= 0 {
			n := min(bytes, r.marks[i].bytes)
			r.marks[i].bytes -= n
			r.held -= n
		}
	}
	i := r.n - 1
	switch {
	case r.n > 0 && now.before(r.marks[i].from):
		i = max(0, r.place(now)) // two prompts within a tick
	case r.n == 0 || r.marks[i].bytes >= r.size/markShare && r.marks[i].from != now:
		i = r.mark(now)
	}
	r.marks[i].bytes += bytes
	r.held += bytes
}

// place returns the mark that the use belongs to, or -1 if it is older than all.
func (r *room) place(u use) int {
	low, high := 0, r.n
	for low < high {
		if mid := (low + high) / 2; u.before(r.marks[mid].from) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low - 1
}

// mark begins a mark at the end. Where all are taken, the two neighbours that hold
// least become one.
func (r *room) mark(now use) int {
	if r.n == marksMax {
		least := 0
		for i := 1; i < r.n-1; i++ {
			if r.marks[i].bytes+r.marks[i+1].bytes < r.marks[least].bytes+r.marks[least+1].bytes {
				least = i
			}
		}
		r.marks[least].bytes += r.marks[least+1].bytes
		r.n--
		copy(r.marks[least+1:r.n], r.marks[least+2:])
	}
	r.marks[r.n] = mark{from: now}
	r.n++
	return r.n - 1
}

// trim forgets the oldest that has no room.
func (r *room) trim() {
	gone := 0
	for gone < r.n-1 && r.held > r.size {
		r.held -= r.marks[gone].bytes
		gone++
	}
	if gone > 0 {
		r.n -= gone
		copy(r.marks[:r.n], r.marks[gone:])
		r.since = r.marks[0].from
	}
}
