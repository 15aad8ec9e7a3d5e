package request

import "math"

const (
	// longString is from which length on in bytes strings are remembered.
	// To scan a shorter one again costs little more than to look it up.
	longString = 512

	// longStrings is how many are remembered, the first ones of the body. Those
	// beyond are scanned again.
	longStrings = 256
)

// longs remembers where the long strings of a body end. They are most of it, and
// each is come by once in the first pass and once for each level of the prompt
// that it lies in.
type longs struct {
	at    [longStrings]struct{ lo, hi int32 } // in the order of the body
	count int
	near  int // the first that begins at or behind the last one asked for
}

// end returns what [stringEnd] does for the string whose first byte is at i.
func (l *longs) end(b []byte, i int) int {
	// Passes go forward, and back only over what they have skipped, so that
	// these loops take no more steps than there are jumps.
	for l.near < l.count && int(l.at[l.near].lo) < i {
		l.near++
	}
	for l.near > 0 && int(l.at[l.near-1].lo) >= i {
		l.near--
	}
	if l.near < l.count && int(l.at[l.near].lo) == i {
		return int(l.at[l.near].hi)
	}
	end := stringEnd(b, i)
	if end-i >= longString && end <= math.MaxInt32 && l.near == l.count && l.count < longStrings {
		l.at[l.count].lo, l.at[l.count].hi = int32(i), int32(end)
		l.count++
	}
	return end
}
