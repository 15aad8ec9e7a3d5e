package trace

// pieceTokens is Trace.Block of what is made up here: the block of the engines'
// caches.
const pieceTokens = 16

// prompt is a made-up text, as the ids of its pieces. Text is added in parts, and
// two prompts made of the same parts in the same order have the same ids as far
// as that goes: an id is a hash of every part so far and of how much of it.
type prompt struct {
	ids    []uint64 // of the full pieces
	all    uint64
	tokens int
}

// add appends the beginning of a text that has no end. Texts of different names
// have nothing in common.
func (p *prompt) add(name uint64, tokens int) {
	for from := 0; from < tokens; {
		n := min(pieceTokens-p.tokens%pieceTokens, tokens-from)
		p.all = mix(mix(p.all, name), uint64(from)<<8|uint64(n))
		from += n
		if p.tokens += n; p.tokens%pieceTokens == 0 {
			p.ids = append(p.ids, p.all)
		}
	}
}

// clone is a prompt that goes another way from here, with room for so many more tokens.
func (p *prompt) clone(room int) prompt {
	c := *p
	c.ids = append(make([]uint64, 0, len(p.ids)+room/pieceTokens+1), p.ids...)
	return c
}

// text names a text: by what it is for, and which of these it is.
func text(seed uint64, kind string, numbers ...int) uint64 {
	h := mix(seed, uint64(len(kind)))
	for _, c := range []byte(kind) {
		h = mix(h, uint64(c))
	}
	for _, n := range numbers {
		h = mix(h, uint64(n))
	}
	return h
}
