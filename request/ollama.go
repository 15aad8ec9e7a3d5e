package request

// ollamaChat writes the canonical prompt of Ollama's own chat. Its keys count in
// any letter case, as Ollama reads them.
func (r *reading) ollamaChat(c *canon) {
	c.piece(tagTools, r.b, r.at[fieldTools])
	r.conversation(c, OllamaChat, r.at[fieldMessages])
}

// ollamaMessage writes the message at i and returns where it ends.
func (r *reading) ollamaMessage(c *canon, i int) int {
	var m message
	w := r.into(i)
	for {
		key, value, ok := w.member()
		if !ok {
			break
		}
		switch string(r.folded(key)) {
		case "role":
			m.role = value
		case "tool_name":
			m.name = value
		case "tool_call_id":
			m.callID = value
		case "thinking":
			m.reasoning = value
		case "images":
			m.images = value
		case "content":
			m.content = value
		case "tool_calls":
			m.calls = value
		}
	}
	r.say(c, &m)
	return w.at
}

// ollamaGenerate writes the canonical prompt of Ollama's own completion. Without
// a prompt it only has the model loaded.
func (r *reading) ollamaGenerate(c *canon) {
	c.keyLimit = keyBytes
	c.piece(tagTemplate, r.b, r.at[fieldTemplate])
	c.piece(tagSystem, r.b, r.at[fieldSystem])
	if v := r.at[fieldContext]; isList(r.b, v) {
		r.prompts(c, tagText, v) // the conversation before, in token ids
	}
	r.pictures(c, r.at[fieldImages])
	c.piece(tagText, r.b, r.at[fieldPrompt])
	c.piece(tagSuffix, r.b, r.at[fieldSuffix])
}
