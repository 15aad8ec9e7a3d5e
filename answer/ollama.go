package answer

// ollama is the grammar of Ollama's own two APIs: chat, whose text is in a
// message, and generate, whose text is a response.
func ollama(p place, key []byte) place {
	switch p {
	case root:
		switch string(key) {
		case "message":
			return delta
		case "response", "thinking":
			return token
		case "done":
			return ended
		case "created_at":
			return varying
		case "prompt_eval_count":
			return prompt
		case "eval_count":
			return output
		case "error":
			return failure
		}
	case delta:
		switch string(key) {
		case "content", "thinking", "tool_calls":
			return token
		}
	default:
		return common(p, key)
	}
	return elsewhere
}
