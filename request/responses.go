package request

// responses writes the canonical prompt of OpenAI's Responses API: how much to
// think, the tools, the instructions, then the items of the input. A text alone
// is the message of a user.
//
// Where the conversation before is kept by the engine, it stands in front of the
// input but not in the body. What we hold of other prompts says nothing about
// such a one, so its name separates it from all; and the conversation key is made
// of it, which keeps retries and parallel branches together. The server that
// keeps it is not known by this: clients name their session for that.
func (r *reading) responses(c *canon) {
	for _, f := range [...]field{fieldConversation, fieldPreviousResponseID} {
		v := r.at[f]
		if v.hi-v.lo <= len(`""`) {
			continue // names nothing
		}
		c.fold(foldState, v.in(r.b))
		if c.keyOpen {
			c.named(v.in(r.b))
		}
	}
	c.piece(tagEffort, r.b, r.at[fieldReasoning])
	c.piece(tagTools, r.b, r.at[fieldTools])
	c.piece(tagTemplate, r.b, r.at[fieldPrompt]) // by its id
	c.piece(tagSystem, r.b, r.at[fieldInstructions])

	v := r.at[fieldInput]
	if !isString(r.b, v) {
		r.conversation(c, Responses, v)
		return
	}
	c.mark(tagRole)
	c.write([]byte("user"))
	c.piece(tagContent, r.b, v)
	c.closeKey()
}

// item writes the item at i: a message, a call or what it returned, or what the
// model thought. Of an item without any text its type and its data count, as of
// a picture. It returns where the item ends.
func (r *reading) item(c *canon, i int) int {
	var role, kind, name, callID, summary, content, arguments, input, output, action, hidden span
	w := r.into(i)
	for {
		key, value, ok := w.member()
		if !ok {
			break
		}
		switch string(key) {
		case "role":
			role = value
		case "type":
			kind = value
		case "name":
			name = value
		case "call_id":
			callID = value
		case "summary":
			summary = value
		case "content":
			content = value
		case "arguments":
			arguments = value
		case "input":
			input = value
		case "output":
			output = value
		case "action":
			action = value
		case "encrypted_content":
			hidden = value
		}
	}
	if role.absent() {
		role = kind
	}
	r.speaker(c, role)
	c.piece(tagName, r.b, name)
	c.piece(tagCallID, r.b, callID)
	before := c.bytes()
	r.content(c, summary)
	r.content(c, content)
	c.piece(tagCall, r.b, arguments)
	c.piece(tagCall, r.b, input)
	c.piece(tagCall, r.b, action)
	r.result(c, output)
	if c.bytes() == before {
		if hidden.absent() {
			hidden = span{i, w.at}
		}
		c.picture(hidden.in(r.b))
	}
	r.said(c, role)
	return w.at
}

// result writes what a tool returned: text, parts of it, or a picture.
func (r *reading) result(c *canon, v span) {
	switch {
	case v.absent():
	case r.b[v.lo] == '{':
		r.part(c, v.lo)
	case r.b[v.lo] == '[':
		c.mark(tagResult)
		r.content(c, v)
	default:
		c.piece(tagResult, r.b, v)
	}
}
