package answer

// encoded is the grammar of what is computed from a prompt alone: embeddings and
// other pooled states, classes, scores and ranks. All of them come whole. Some
// engines give no usage but count each text by itself, and some ranks are a list
// at the root.
func encoded(p place, key []byte) place {
	switch p {
	case root:
		switch string(key) {
		case "data", "results", "scores", "embedding", "embeddings", "document":
			return token
		case "meta": // Cohere's
			return body
		case "meta_info": // SGLang's
			return meta
		}
		return openAI(p, key)
	case body:
		if string(key) == "tokens" {
			return usage
		}
	case meta:
		if string(key) == "prompt_tokens" {
			return addend
		}
	case usage:
		if string(key) == "total_tokens" {
			return total
		}
		return common(p, key)
	default:
		return common(p, key)
	}
	return elsewhere
}

// media is the grammar of the text of a sound, and of pictures.
func media(p place, key []byte) place {
	if p == root {
		switch string(key) {
		case "text", "segments", "data":
			return token
		}
		return openAI(p, key)
	}
	return common(p, key)
}
