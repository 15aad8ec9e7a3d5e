package request

// unmarkedList writes a list of objects, member by member, without the cache
// markers in them.
func (r *reading) unmarkedList(c *canon, tag byte, v span) {
	if !isList(r.b, v) {
		c.piece(tag, r.b, v)
		return
	}
	c.mark(tag - upper)
	for w := r.into(v.lo); ; {
		at, ok := w.next()
		if !ok {
			return
		}
		if r.b[at] != '{' {
			c.piece(tag, r.b, w.value(at))
			continue
		}
		c.mark(tag - upper)
		in := r.into(at)
		for {
			key, value, ok := in.unmarked()
			if !ok {
				break
			}
			c.mark(tagMember)
			c.write(key)
			c.piece(tagValue, r.b, value)
		}
		w.at = in.at
	}
}

// unknown writes a block of a kind that we do not know as if it were a picture,
// for that may be in it. Its data are folded in without its cache marker.
func (r *reading) unknown(c *canon, v span) {
	for w := r.into(v.lo); ; {
		key, value, ok := w.unmarked()
		if !ok {
			c.picture(nil)
			return
		}
		c.fold(foldMember, key)
		c.fold(foldMember, value.in(r.b))
	}
}

// unmarked returns the next member of an object that is no cache marker: its key
// as it is spelled and its value, null included.
func (w *walk) unmarked() (key []byte, v span, ok bool) {
	for {
		at, ok := w.next()
		if !ok {
			return nil, span{}, false
		}
		b := w.s.b
		key = b[at+1 : stringEnd(b, at+1)]
		v = w.value(skipSpace(b, keyEnd(b, at)))
		if string(key) != cacheMarker {
			return key, v, true
		}
	}
}
