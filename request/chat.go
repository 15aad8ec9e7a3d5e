package request

// preface is what chat templates render before the first message, in the order
// it is hashed in. What only changes a prompt's end (tool_choice,
// add_generation_prompt, response_format) is left out on purpose: requests that
// differ in it share their cache.
var preface = [...]struct {
	f   field
	tag byte
}{
	{fieldChatTemplate, tagTemplate},
	{fieldChatTemplateKwargs, tagTemplArgs},
	{fieldReasoningEffort, tagEffort},
	{fieldMMProcessorKwargs, tagProcessor},
	{fieldTools, tagTools},
	{fieldFunctions, tagFunctions},
	{fieldDocuments, tagDocuments},
}

// chat writes the canonical prompt of a chat. The key closes behind the first
// message of a user: what comes before may be one preamble shared by all, and
// what comes after is new in every turn.
func (r *reading) chat(c *canon) {
	for _, p := range preface {
		c.piece(p.tag, r.b, r.at[p.f])
	}
	v := r.at[fieldMessages]
	if v.absent() || r.b[v.lo] != '[' {
		c.piece(tagContent, r.b, v)
		return
	}
	for w := r.into(v.lo); ; {
		at, ok := w.next()
		if !ok {
			return
		}
		if r.b[at] == '{' {
			w.at = r.message(c, at)
		} else {
			c.piece(tagRole, r.b, w.value(at))
		}
	}
}

// message writes the message at i: who speaks, then what, in the order in which
// templates render it. It returns where the message ends.
func (r *reading) message(c *canon, i int) int {
	var role, name, callID, tools, reasoning, content, calls, call, refusal, audio span
	w := r.into(i)
	for {
		key, value, ok := w.member()
		if !ok {
			break
		}
		switch string(key) {
		case "role":
			role = value
		case "name":
			name = value
		case "tool_call_id":
			callID = value
		case "tools":
			tools = value
		case "reasoning_content", "reasoning":
			if !value.absent() {
				reasoning = value
			}
		case "content":
			content = value
		case "tool_calls":
			calls = value
		case "function_call":
			call = value
		case "refusal":
			refusal = value
		case "audio":
			audio = value
		}
	}
	if role.absent() {
		c.mark(tagRole) // messages stay apart without it
	}
	c.piece(tagRole, r.b, role)
	c.piece(tagName, r.b, name)
	c.piece(tagCallID, r.b, callID)
	c.piece(tagTools, r.b, tools)
	c.piece(tagThought, r.b, reasoning)
	if !content.absent() && r.b[content.lo] == '[' {
		r.parts(c, content)
	} else {
		c.piece(tagContent, r.b, content)
	}
	c.piece(tagCalls, r.b, calls)
	c.piece(tagCall, r.b, call)
	c.piece(tagRefusal, r.b, refusal)
	c.piece(tagAudio, r.b, audio)

	if isString(r.b, role) && string(inner(r.b, role)) == "user" {
		c.closeKey()
	}
	return w.at
}

// parts writes a content that is an array. A single text part gives the same
// bytes as a plain string, since templates render the two alike.
func (r *reading) parts(c *canon, v span) {
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
// are not asked for, because engines keep adding to them and some infer them.
// It returns where the part ends.
func (r *reading) part(c *canon, i int) int {
	var text span
	tag := byte(tagContent)
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
			text, tag = value, tagContent
		case "refusal":
			text, tag = value, tagRefusal
		case "thinking":
			text, tag = value, tagThought
		}
	}
	if text.absent() {
		c.picture(r.b[i:w.at])
	} else {
		c.piece(tag, r.b, text)
	}
	return w.at
}
