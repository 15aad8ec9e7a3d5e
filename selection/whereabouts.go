package selection

// whereabouts finds a holder by its cache. Each of a thousand seats is looked up,
// and dozens may hold the prompt.
type whereabouts struct {
	any   bool
	spots [4 * holdersMax]uint8 // number of the holder, from one on; 0 is a free spot
}

// spot is where the search for a cache begins. Caches are numbered one after the
// other.
func spot(cache uint32) uint32 { return cache % (4 * holdersMax) }

// note takes in the holders of a prompt. It is for empty ones.
func (w *whereabouts) note(holders []holder) {
	w.any = len(holders) > 0
	for i := range holders {
		at := spot(holders[i].cache)
		for w.spots[at] != 0 {
			at = spot(at + 1)
		}
		w.spots[at] = uint8(i + 1)
	}
}

// find returns the cache's holder among those that were noted, or nil.
func (w *whereabouts) find(cache uint32, holders []holder) *holder {
	if !w.any {
		return nil
	}
	for at := spot(cache); w.spots[at] != 0; at = spot(at + 1) {
		if h := &holders[w.spots[at]-1]; h.cache == cache {
			return h
		}
	}
	return nil
}
