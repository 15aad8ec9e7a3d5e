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
	r.conversation(c, Chat, r.at[fieldMessages])
}

// message writes the message at i and returns where it ends.
func (r *reading) message(c *canon, i int) int {
	var m message
	w := r.into(i)
	for {
		key, value, ok := w.member()
		if !ok {
			break
		}
		switch string(key) {
		case "role":
			m.role = value
		case "name":
			m.name = value
		case "tool_call_id":
			m.callID = value
		case "tools":
			m.tools = value
		case "reasoning_content", "reasoning":
			if !value.absent() {
				m.reasoning = value
			}
		case "content":
			m.content = value
		case "tool_calls":
			m.calls = value
		case "function_call":
			m.call = value
		case "refusal":
			m.refusal = value
		case "audio":
			m.audio = value
		}
	}
	r.say(c, &m)
	return w.at
}
