package answer

// generate is the grammar of two APIs that share a path. TGI's events have a
// token each and end with the whole text; SGLang's have all of the text so far
// and what is known about it.
func generate(p place, key []byte) place {
	switch p {
	case root:
		switch string(key) {
		case "token": // TGI
			return body
		case "index":
			return varying
		case "generated_text":
			return final
		case "details":
			return meta
		case "error":
			return failure
		case "error_type":
			return word
		case "text", "output_ids": // SGLang
			return token
		case "meta_info":
			return meta
		}
	case body:
		switch string(key) {
		case "text":
			return token
		case "id", "logprob":
			return varying
		}
	case meta:
		switch string(key) {
		case "finish_reason":
			return finish
		case "generated_tokens", "completion_tokens":
			return output
		case "input_length", "prompt_tokens":
			return prompt
		case "cached_tokens":
			return cached
		}
	default:
		return common(p, key)
	}
	return elsewhere
}
