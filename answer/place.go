package answer

// place is where in an answer a JSON value stands, as far as anybody cares.
type place uint8

const (
	elsewhere place = iota

	// Objects, and lists of them. The elements of a list at the root are answers
	// themselves: that is how a batch comes.
	root
	body   // what an event is about: Anthropic's message, a response, TGI's token
	choice // OpenAI
	delta  // what a choice or a block has more of
	item   // of a response's output
	block  // of Anthropic's content
	usage
	details // of the prompt in usage
	timings // llama.cpp's
	meta    // SGLang's meta_info, TGI's details

	// Lists.
	choices
	items
	parts // of an item's content or summary
	blocks

	// Values. Strings in any other place are passed over.
	failure // an error: an object, or its message
	token   // what a generated token fills: text, tool calls, audio
	finish  // a reason to finish: not null, nor empty
	final   // the whole text once more: there only at the end
	ended   // true at the end
	kind    // what an event is, in words
	prompt  // counts
	output
	cached   // cached prompt tokens, under any of their names
	uncached // Anthropic's parts of the prompt: not cached,
	reread   // read from the cache,
	written  // written to it
	total    // of tokens, where nothing is generated
	addend   // the prompt's tokens in one of several texts
	code     // of an error
	httpCode // of an error, TGI's
	word     // an error's type
	message  // an error's
	varying  // of no interest, but another in every event
)

// element is the place of what is in a list at p. An object at a list's place has
// no members that mean anything, nor has a list at an object's any elements.
func (p place) element() place {
	switch p {
	case root:
		return root
	case choices:
		return choice
	case items:
		return item
	case parts, blocks:
		return block
	default:
		return elsewhere
	}
}

// grammar tells which place the member of an object at p with the given key is.
// The compiler makes a search by length and bytes of each switch.
type grammar func(p place, key []byte) place

// common is what dialects share: the inside of an error, and usage in the words
// of OpenAI's two APIs.
func common(p place, key []byte) place {
	switch p {
	case failure:
		switch string(key) {
		case "code":
			return code
		case "http_status_code":
			return httpCode
		case "type", "error_type":
			return word
		case "message":
			return message
		case "error":
			return failure
		}
	case usage:
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			return prompt
		case "completion_tokens", "output_tokens":
			return output
		case "prompt_tokens_details", "input_tokens_details":
			return details
		case "prompt_cache_hit_tokens":
			return cached
		}
	case details:
		if string(key) == "cached_tokens" {
			return cached
		}
	case timings:
		if string(key) == "cache_n" {
			return cached
		}
	default: // nothing in it is of use
	}
	return elsewhere
}
