package request

// cacheMarker is where a client of Anthropic's tells the server to keep what it
// has up to there. It moves with every turn and is no part of any prompt.
const cacheMarker = "cache_control"

// messages writes the canonical prompt of Anthropic's Messages API: tools, the
// system's text, then the messages with their blocks.
func (r *reading) messages(c *canon) {
	for _, p := range preface {
		if p.f == fieldTools {
			r.unmarkedList(c, p.tag, r.at[p.f])
		} else {
			c.piece(p.tag, r.b, r.at[p.f])
		}
	}
	r.blocks(c, tagSystem, r.at[fieldSystem])
	r.conversation(c, Messages, r.at[fieldMessages])
}

// blockMessage writes the message at i and returns where it ends.
func (r *reading) blockMessage(c *canon, i int) int {
	var role, content span
	w := r.into(i)
	for {
		key, value, ok := w.member()
		if !ok {
			break
		}
		switch string(key) {
		case "role":
			role = value
		case "content":
			content = value
		}
	}
	r.speaker(c, role)
	r.blocks(c, tagContent, content)
	r.said(c, role)
	return w.at
}

// blocks writes content that is a text or a list of blocks. A single block of
// text gives the same bytes as the text itself.
func (r *reading) blocks(c *canon, tag byte, v span) {
	if !isList(r.b, v) {
		c.piece(tag, r.b, v)
		return
	}
	for w := r.into(v.lo); ; {
		at, ok := w.next()
		if !ok {
			return
		}
		if r.b[at] != '{' {
			c.piece(tag, r.b, w.value(at))
			continue
		}
		var k block
		k, w.at = r.blockAt(at)
		c.piece(tagName, r.b, k.name)
		c.piece(tagCallID, r.b, k.id)
		c.piece(tagCall, r.b, k.input)
		if !k.resultOf.absent() {
			c.mark(tagResult)
			c.piece(tagCallID, r.b, k.resultOf)
		}
		switch {
		case isList(r.b, k.content):
			r.leaves(c, k.content)
		case !k.content.absent():
			c.piece(tagContent, r.b, k.content)
		case k.input.absent() && k.resultOf.absent():
			r.leaf(c, tag, &k)
		}
	}
}

// leaves writes the blocks within a block, which have none within them.
func (r *reading) leaves(c *canon, v span) {
	for w := r.into(v.lo); ; {
		at, ok := w.next()
		if !ok {
			return
		}
		if r.b[at] != '{' {
			c.piece(tagContent, r.b, w.value(at))
			continue
		}
		var k block
		k, w.at = r.blockAt(at)
		r.leaf(c, tagContent, &k)
	}
}

// block is what a block has, of whichever type it is.
type block struct {
	at                                                            span
	text, thinking, data, title, source, content, name, id, input span
	resultOf                                                      span
}

// blockAt reads the block at i and tells where it ends.
func (r *reading) blockAt(i int) (k block, end int) {
	w := r.into(i)
	for {
		key, value, ok := w.member()
		if !ok {
			k.at = span{i, w.at}
			return k, w.at
		}
		switch string(key) {
		case "text":
			k.text = value
		case "thinking":
			k.thinking = value
		case "data": // thought, but hidden
			k.data = value
		case "title":
			k.title = value
		case "source":
			k.source = value
		case "content":
			k.content = value
		case "name":
			k.name = value
		case "id":
			k.id = value
		case "input":
			k.input = value
		case "tool_use_id":
			k.resultOf = value
		}
	}
}

// leaf writes text, a thought, a picture or a document.
func (r *reading) leaf(c *canon, tag byte, k *block) {
	c.piece(tagName, r.b, k.title)
	switch {
	case isString(r.b, k.text):
		c.piece(tag, r.b, k.text)
	case isString(r.b, k.thinking):
		c.piece(tagThought, r.b, k.thinking)
	case !k.source.absent():
		r.source(c, k.source)
	case !k.data.absent():
		c.picture(k.data.in(r.b))
	default:
		r.unknown(c, k.at)
	}
}

// source writes where a picture or a document comes from. A document may stand
// there as text.
func (r *reading) source(c *canon, v span) {
	var kind, data span
	if r.b[v.lo] == '{' {
		for w := r.into(v.lo); ; {
			key, value, ok := w.member()
			if !ok {
				break
			}
			switch string(key) {
			case "type":
				kind = value
			case "data":
				data = value
			}
		}
	}
	if isString(r.b, data) && isString(r.b, kind) && string(inner(r.b, kind)) == "text" {
		c.piece(tagContent, r.b, data)
		return
	}
	c.picture(v.in(r.b))
}
