package request

import "github.com/zeebo/xxh3"

// promptKind is the shape of a completion's prompt.
type promptKind uint8

const (
	noPrompt    promptKind = iota // absent, null, or an empty array
	textPrompt                    // a string
	textPrompts                   // an array of strings
	idPrompt                      // an array of token ids
	idPrompts                     // an array of arrays of token ids
	mixedPrompt                   // an array of several of these, as llama.cpp takes
	otherPrompt                   // anything else; the engine answers
)

// completions writes the canonical prompt of a completion and tells its shape
// and how many sequences the engine will start for it.
func (r *reading) completions(c *canon) (kind promptKind, sequences int) {
	c.keyLimit = keyBytes
	if v := r.at[fieldAddSpecialTokens]; !v.absent() {
		// Whether the tokenizer puts a token in front moves all others.
		c.fold(foldSpecial, v.in(r.b))
	}

	v := r.at[fieldPrompt]
	kind, sequences = noPrompt, 1
	switch {
	case v.absent():
	case r.b[v.lo] == '"':
		kind = textPrompt
		c.piece(tagText, r.b, v)
	case r.b[v.lo] == '[':
		kind, sequences = r.prompts(c, v)
	default:
		kind = otherPrompt
		c.piece(tagText, r.b, v)
	}
	if v := r.at[fieldPromptEmbeds]; !v.absent() {
		c.picture(v.in(r.b))
	}
	c.piece(tagSuffix, r.b, r.at[fieldSuffix])
	return kind, sequences
}

// prompts writes an array of prompts, or the one prompt that an array of token
// ids is. A plain list of ids and a list of one such list are the same prompt.
func (r *reading) prompts(c *canon, v span) (kind promptKind, sequences int) {
	texts, ids, lists, others := 0, 0, 0, 0
	allIDs := true // the lists hold nothing else
	p := promptWriter{r: r, c: c}
	for w := r.into(v.lo); ; {
		at, ok := w.next()
		if !ok {
			break
		}
		switch {
		case r.b[at] == '[':
			if lists > 0 {
				c.fold(foldNextList, nil)
			}
			lists++
			in := r.into(at)
			for {
				at, ok := in.next()
				if !ok {
					break
				}
				allIDs = p.element(&in, at) && allIDs
			}
			w.at = in.at
		case p.element(&w, at):
			ids++
		case r.b[at] == '"':
			texts++
		default:
			others++
		}
	}

	sequences = max(1, texts+lists+others)
	if ids > 0 {
		sequences = 1 // llama.cpp takes ids and texts side by side as one prompt
	}
	switch n := texts + ids + lists + others; {
	case n == 0:
		kind = noPrompt
	case n == texts:
		kind = textPrompts
	case n == ids:
		kind = idPrompt
	case n == lists && allIDs:
		kind = idPrompts
	default:
		kind = mixedPrompt
	}
	return kind, sequences
}

// promptWriter writes the elements of a prompt. Token ids have no marks between
// them, so each change from text to ids and back is folded in.
type promptWriter struct {
	r   *reading
	c   *canon
	ids bool // the element before was a token id
}

// element writes the element at i, steps behind it, and tells whether it was a
// token id.
func (p *promptWriter) element(w *walk, i int) bool {
	b := p.r.b
	id := '0' <= b[i] && b[i] <= '9' || b[i] == '-'
	if id != p.ids {
		p.ids = id
		tag := foldText
		if id {
			tag = foldIDs
		}
		p.c.fold(tag, nil)
	}
	switch {
	case id:
		var v uint32
		v, w.at = tokenID(b, i)
		p.c.id(v)
	case b[i] == '{':
		p.r.promptObject(p.c, w.value(i))
	default:
		p.c.piece(tagText, b, w.value(i))
	}
	return id
}

// promptObject writes llama.cpp's form of a prompt with pictures.
func (r *reading) promptObject(c *canon, v span) {
	var text, data span
	for w := r.into(v.lo); ; {
		key, value, ok := w.member()
		if !ok {
			break
		}
		switch string(key) {
		case "prompt_string":
			text = value
		case "multimodal_data":
			data = value
		}
	}
	if text.absent() && data.absent() {
		c.piece(tagText, r.b, v)
		return
	}
	if !data.absent() {
		c.picture(data.in(r.b))
	}
	c.piece(tagText, r.b, text)
}

// tokenID reads the token id at i and tells where it ends. A number that is no
// id still gets a value of its own.
func tokenID(b []byte, i int) (id uint32, end int) {
	const safe = 9 // digits that cannot overflow
	for end = i; end < len(b) && end < i+safe; end++ {
		digit := b[end] - '0'
		if digit > 9 {
			break
		}
		id = id*10 + uint32(digit)
	}
	if end > i && end < len(b) && (b[end] == ',' || b[end] == ']') {
		return id, end
	}
	end = literalEnd(b, i)
	if text := b[i:end]; len(text) > safe || digitsEnd(text, 0) < len(text) {
		id = uint32(xxh3.Hash(text))
	}
	return id, end
}
