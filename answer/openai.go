package answer

// openAI is the grammar of chat completions and completions, as vLLM, SGLang,
// TensorRT-LLM, TGI, llama.cpp and others write them: streams and whole answers.
func openAI(p place, key []byte) place {
	switch p {
	case root:
		switch string(key) {
		case "choices":
			return choices
		case "usage":
			return usage
		case "timings":
			return timings
		case "error":
			return failure
		case "obfuscation":
			return varying
		case "object": // older vLLM's errors have no object of their own
			return kind
		case "code":
			return code
		case "type":
			return word
		case "message":
			return message
		}
	case choice:
		switch string(key) {
		case "delta", "message":
			return delta
		case "text":
			return token
		case "finish_reason":
			return finish
		case "usage":
			return usage
		}
	case delta:
		switch string(key) {
		case "content", "reasoning", "reasoning_content", "reasoning_details", "refusal", "tool_calls", "function_call", "audio":
			return token
		}
	default:
		return common(p, key)
	}
	return elsewhere
}
