package answer

import "bytes"

const (
	// maxPattern bounds the pattern, and with it what a stream holds.
	maxPattern = 512
	maxHoles   = 4
)

// hole is a value of an event that may differ in the next one.
type hole struct {
	from, to int // in the event; the end of a number is found when it is needed
	kind     holeKind
}

type holeKind uint8

const (
	textHole   holeKind = iota // the text of a string that is generated
	wordHole                   // the text of another string
	numberHole                 // a number
)

// holes are those of the current event. Beyond maxHoles they are only counted.
type holes struct {
	list [maxHoles]hole
	n    int
}

func (h *holes) add(from int, k holeKind) {
	if h.n < maxHoles {
		h.list[h.n] = hole{from: from, kind: k}
	}
	h.n = min(h.n+1, maxHoles+1)
}

// end closes the last hole, if it is a string's that is still open.
func (h *holes) end(to int) {
	if 0 < h.n && h.n <= maxHoles && h.list[h.n-1].to == 0 {
		h.list[h.n-1].to = to
	}
}

// text reports whether generated text is among them.
func (h *holes) text() bool {
	for i := range min(h.n, maxHoles) {
		if h.list[i].kind == textHole {
			return true
		}
	}
	return false
}

// pattern is an event around the holes in it. The events of a long answer differ
// in nothing else, so most are passed over with a comparison for each piece
// between two holes: whatever the first of them said, the next would only repeat.
// Only whether there is a token in it depends on the texts, which may be empty.
type pattern struct {
	bytes [maxPattern]byte
	ends  [maxHoles + 1]int // of the pieces, in bytes
	kinds [maxHoles]holeKind
	n     int  // holes; without any there is no pattern
	usage bool // the events tell of usage
}

// passOver is for an event that does not follow the pattern. When it has told of
// usage, the next event with the pattern's would have to be heard again.
func (p *pattern) passOver() {
	if p.usage {
		p.n = 0
	}
}

// skip returns the length of the event that b begins with if it follows the
// pattern, and that of the generated texts in it; otherwise 0.
func (p *pattern) skip(b []byte) (event, text int) {
	if p.n == 0 {
		return 0, 0
	}
	i, from := 0, 0
	for h := range p.n {
		piece := p.bytes[from:p.ends[h]]
		if !bytes.HasPrefix(b[i:], piece) {
			return 0, 0
		}
		i, from = i+len(piece), p.ends[h]
		if p.kinds[h] == numberHole {
			i = numberEnd(b, i)
			continue
		}
		begin := i
		for ; i < len(b) && b[i] != '"'; i++ {
			if b[i] == '\\' || b[i] < ' ' {
				return 0, 0
			}
		}
		if p.kinds[h] == textHole {
			text += i - begin
		}
	}
	piece := p.bytes[from:p.ends[p.n]]
	if !bytes.HasPrefix(b[i:], piece) {
		return 0, 0
	}
	return i + len(piece), text
}

// learn makes a pattern of the event, if one of its holes is for generated text.
func (p *pattern) learn(event []byte, h *holes, usage bool) {
	if h.n > maxHoles || len(event) > maxPattern || !h.text() {
		return
	}
	n, from := 0, 0
	for i := range h.n {
		at := h.list[i]
		if at.kind == numberHole {
			at.to = numberEnd(event, at.from)
		}
		n += copy(p.bytes[n:], event[from:at.from])
		p.ends[i], p.kinds[i] = n, at.kind
		from = at.to
	}
	n += copy(p.bytes[n:], event[from:])
	p.ends[h.n] = n
	p.n, p.usage = h.n, usage
}

// numberEnd is the end of the number that begins at i.
func numberEnd(b []byte, i int) int {
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case '0' <= c && c <= '9', c == '.', c == '-', c == '+', c == 'e', c == 'E':
		default:
			return i
		}
	}
	return i
}
