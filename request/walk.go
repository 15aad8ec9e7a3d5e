package request

import "bytes"

// walk steps through the members of an object or the elements of an array that
// the first pass has found to be well formed. For each there is a call of next,
// or of key, and then either one of value or a walk of its own that leaves
// where it ended: so nothing is scanned twice for the sake of one level.
type walk struct {
	s  *scanner
	at int
}

// into begins a walk of the container whose bracket is at i.
func (s *scanner) into(i int) walk { return walk{s: s, at: i + 1} }

// next returns where the next element begins. When there is none it leaves the
// walk behind the closing bracket.
func (w *walk) next() (at int, ok bool) {
	b := w.s.b
	i := skipSpace(b, w.at)
	if i < len(b) && b[i] == ',' {
		i = skipSpace(b, i+1)
	}
	if i >= len(b) || b[i] == ']' || b[i] == '}' {
		w.at = i + 1
		return i, false
	}
	return i, true
}

// key returns the next member's key, unescaped, and where its value begins. The
// key is good until the next one is asked for.
func (w *walk) key() (key []byte, at int, ok bool) {
	i, ok := w.next()
	if !ok {
		return nil, i, false
	}
	b := w.s.b
	quote := stringEnd(b, i+1)
	colon := skipSpace(b, quote+1)
	key = b[i+1 : quote]
	if len(key) <= len(w.s.name) && bytes.IndexByte(key, '\\') >= 0 {
		key = appendUnescaped(w.s.name[:0], key)
	}
	return key, skipSpace(b, colon+1), true
}

// value returns the value at i, which next or key told, and steps behind it.
func (w *walk) value(i int) span {
	end, _ := w.s.value(i, 0)
	w.at = end
	return span{i, end}
}

// member returns the next member of an object: its key and its value, absent
// when null.
func (w *walk) member() (key []byte, v span, ok bool) {
	key, at, ok := w.key()
	if !ok {
		return nil, span{}, false
	}
	if v = w.value(at); w.s.b[at] == 'n' {
		v = span{}
	}
	return key, v, true
}

// folded returns a key as Go's decoder matches it, for engines that read any
// letter case. It is good as long as the key.
func (s *scanner) folded(key []byte) []byte {
	if isPlainLower(key) || len(key) > len(s.name) {
		return key
	}
	return foldCase(s.name[:copy(s.name[:], key)])
}
