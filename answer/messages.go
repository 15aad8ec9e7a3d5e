package answer

// anthropic is the grammar of Anthropic's Messages API. Usage comes in two
// events: the prompt with the first one, where the count of output is not yet
// one, and the output with the last.
func anthropic(p place, key []byte) place {
	switch p {
	case root:
		switch string(key) {
		case "type":
			return kind
		case "delta":
			return delta
		case "content_block":
			return block
		case "message":
			return body
		case "usage":
			return usage
		case "error":
			return failure
		case "content": // of an answer that comes whole
			return blocks
		}
	case body:
		if string(key) == "usage" {
			return meta
		}
	case delta:
		switch string(key) {
		case "text", "thinking", "partial_json":
			return token
		}
	case block:
		switch string(key) {
		case "text", "thinking", "data", "name": // the name is a tool's
			return token
		}
	case usage:
		if string(key) == "output_tokens" {
			return output
		}
		return promptParts(key)
	case meta:
		return promptParts(key)
	default:
		return common(p, key)
	}
	return elsewhere
}

func promptParts(key []byte) place {
	switch string(key) {
	case "input_tokens":
		return uncached
	case "cache_read_input_tokens":
		return reread
	case "cache_creation_input_tokens":
		return written
	}
	return elsewhere
}
