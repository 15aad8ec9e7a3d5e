package answer

// llamaCPP is the grammar of llama.cpp's own completion API. What it calls
// tokens_cached is how full the slot is, not how much of the prompt was found
// there; that is among the timings. Others serve OpenAI's completions on the same
// path.
func llamaCPP(p place, key []byte) place {
	if p != root {
		return openAI(p, key)
	}
	switch string(key) {
	case "content":
		return token
	case "stop":
		return ended
	case "tokens_evaluated":
		return prompt
	case "tokens_predicted":
		return output
	case "timings":
		return timings
	}
	return openAI(p, key)
}
