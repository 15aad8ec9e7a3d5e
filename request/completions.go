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

	r.pictures(c, r.at[fieldImageData])
	kind, sequences = r.texts(c, tagText, r.at[fieldPrompt])
	if v := r.at[fieldPromptEmbeds]; !v.absent() {
		c.picture(v.in(r.b))
	}
	c.piece(tagSuffix, r.b, r.at[fieldSuffix])
	return kind, sequences
}

// texts writes what may be one text or several, or token ids, or pictures.
func (r *reading) texts(c *canon, tag byte, v span) (kind promptKind, sequences int) {
	switch {
	case v.absent():
		return noPrompt, 1
	case r.b[v.lo] == '[':
		return r.prompts(c, tag, v)
	case r.b[v.lo] == '"':
		kind = textPrompt
		c.piece(tag, r.b, v)
	case r.b[v.lo] == '{':
		kind = otherPrompt
		r.promptObject(c, tag, v)
	default:
		kind = otherPrompt
		c.piece(tag, r.b, v)
	}
	return kind, 1
}

// prompts writes an array of prompts, or the one prompt that an array of token
// ids is. A plain list of ids and a list of one such list are the same prompt.
func (r *reading) prompts(c *canon, tag byte, v span) (kind promptKind, sequences int) {
	texts, ids, lists, others := 0, 0, 0, 0
	allIDs := true // the lists hold nothing else
	p := promptWriter{r: r, c: c, tag: tag}
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
	tag byte // of texts
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
		p.r.promptObject(p.c, p.tag, w.value(i))
	default:
		p.c.piece(p.tag, b, w.value(i))
	}
	return id
}

// promptObject writes a prompt that is an object: llama.cpp's with pictures, a
// document to rank, a message's part or several.
func (r *reading) promptObject(c *canon, tag byte, v span) {
	var text, data, parts span
	for w := r.into(v.lo); ; {
		key, value, ok := w.member()
		if !ok {
			break
		}
		switch string(key) {
		case "prompt_string", "text":
			text = value
		case "multimodal_data", "image", "image_url", "video_url", "input_audio":
			data = value
		case "content":
			parts = value
		}
	}
	if text.absent() && data.absent() && parts.absent() {
		c.piece(tag, r.b, v)
		return
	}
	if !data.absent() {
		c.picture(data.in(r.b))
	}
	r.content(c, parts)
	c.piece(tag, r.b, text)
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
