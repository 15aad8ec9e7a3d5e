package answer

// responses is the grammar of OpenAI's Responses API. Its events tell by their
// type what they are, but whatever has a delta at its root was just generated:
// text, a refusal, reasoning, a call's arguments, audio. Items and parts repeat
// what the deltas have said.
func responses(p place, key []byte) place {
	switch p {
	case root:
		switch string(key) {
		case "type":
			return kind
		case "delta":
			return token
		case "response":
			return body
		case "sequence_number", "obfuscation":
			return varying
		case "code": // an error event's, which has no object of its own
			return code
		case "message":
			return message
		case "output": // of an answer that comes whole
			return items
		}
		return inResponse(key)
	case body:
		return inResponse(key)
	case item:
		switch string(key) {
		case "content", "summary":
			return parts
		case "name", "arguments", "input":
			return token
		}
	case block:
		switch string(key) {
		case "text", "refusal":
			return token
		}
	default:
		return common(p, key)
	}
	return elsewhere
}

func inResponse(key []byte) place {
	switch string(key) {
	case "usage":
		return usage
	case "error":
		return failure
	}
	return elsewhere
}
