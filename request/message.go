package request

// message is what one message of a conversation has in the dialects that name
// its parts alike.
type message struct {
	role, name, callID, tools, reasoning, images, content, calls, call, refusal, audio span
}

// conversation writes a list of messages as the dialect has them.
func (r *reading) conversation(c *canon, api string, v span) {
	if !isList(r.b, v) {
		c.piece(tagContent, r.b, v)
		return
	}
	for w := r.into(v.lo); ; {
		at, ok := w.next()
		if !ok {
			return
		}
		if r.b[at] == '{' {
			w.at = r.turn(c, api, at)
		} else {
			c.piece(tagRole, r.b, w.value(at))
		}
	}
}

// turn writes the message at i and returns where it ends.
func (r *reading) turn(c *canon, api string, i int) int {
	switch api {
	case Messages:
		return r.blockMessage(c, i)
	case OllamaChat:
		return r.ollamaMessage(c, i)
	case Responses:
		return r.item(c, i)
	}
	return r.message(c, i)
}

// say writes a message: who speaks, then what, in the order in which templates
// render it. The key closes behind the first message of a user.
func (r *reading) say(c *canon, m *message) {
	r.speaker(c, m.role)
	c.piece(tagName, r.b, m.name)
	c.piece(tagCallID, r.b, m.callID)
	c.piece(tagTools, r.b, m.tools)
	c.piece(tagThought, r.b, m.reasoning)
	r.pictures(c, m.images)
	r.content(c, m.content)
	c.piece(tagCalls, r.b, m.calls)
	c.piece(tagCall, r.b, m.call)
	c.piece(tagRefusal, r.b, m.refusal)
	c.piece(tagAudio, r.b, m.audio)
	r.said(c, m.role)
}

// speaker begins a message. Messages stay apart without a role, too.
func (r *reading) speaker(c *canon, role span) {
	if role.absent() {
		c.mark(tagRole)
	}
	c.piece(tagRole, r.b, role)
}

// said ends a message.
func (r *reading) said(c *canon, role span) {
	if isString(r.b, role) && string(inner(r.b, role)) == "user" {
		c.closeKey()
	}
}

// content writes what a message says. A single text part gives the same bytes as
// a plain string, since templates render the two alike.
func (r *reading) content(c *canon, v span) {
	if !isList(r.b, v) {
		c.piece(tagContent, r.b, v)
		return
	}
	for w := r.into(v.lo); ; {
		at, ok := w.next()
		if !ok {
			return
		}
		if r.b[at] == '{' {
			w.at = r.part(c, at)
		} else {
			c.piece(tagContent, r.b, w.value(at))
		}
	}
}

// part writes the part at i: its text where it has any, else a picture. Types
// are not asked for, because engines keep adding to them and some infer them. Of
// several texts it is the same one in whatever order they stand. It returns where
// the part ends.
func (r *reading) part(c *canon, i int) int {
	var text, refusal, thought span
	w := r.into(i)
	for {
		key, value, ok := w.member()
		if !ok {
			break
		}
		if !isString(r.b, value) {
			continue
		}
		switch string(key) {
		case "text":
			text = value
		case "refusal":
			refusal = value
		case "thinking":
			thought = value
		}
	}
	switch {
	case !text.absent():
		c.piece(tagContent, r.b, text)
	case !refusal.absent():
		c.piece(tagRefusal, r.b, refusal)
	case !thought.absent():
		c.piece(tagThought, r.b, thought)
	default:
		c.picture(r.b[i:w.at])
	}
	return w.at
}

// pictures writes a list of pictures, or a single one. A list may have lists in
// it, one for each prompt.
func (r *reading) pictures(c *canon, v span) {
	switch {
	case v.absent():
	case isList(r.b, v):
		for w := r.into(v.lo); ; {
			at, ok := w.next()
			if !ok {
				return
			}
			if r.b[at] != '[' {
				c.picture(w.value(at).in(r.b))
				continue
			}
			inner := r.into(at)
			for {
				at, ok := inner.next()
				if !ok {
					break
				}
				c.picture(inner.value(at).in(r.b))
			}
			w.at = inner.at
		}
	default:
		c.picture(v.in(r.b))
	}
}
