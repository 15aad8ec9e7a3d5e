package request

// streams reports whether the answer comes in pieces. Ollama's do unless the
// client says otherwise, and what generates nothing has nothing to stream.
func (r *reading) streams(api string) bool {
	v := r.at[fieldStream]
	switch api {
	case GenerateStream:
		return true
	case OllamaChat, OllamaGenerate:
		return v.absent() || truth(r.b, v)
	}
	return !Encodes(api) && truth(r.b, v)
}

// limit returns the client's ceiling on generated tokens, 0 when there is none:
// minus one means that too. Several sequences are told apart by the body where
// the dialect has a field for it; how many prompts there are is told elsewhere.
func (r *reading) limit(api string) int {
	switch api {
	case Chat, Completions:
		return product(r.firstCount(fieldMaxCompletionTokens, fieldMaxTokens), r.choices())
	case Responses:
		return r.firstCount(fieldMaxOutputTokens)
	case Messages:
		return r.firstCount(fieldMaxTokens)
	case Completion:
		// Where OpenAI's API has the path, its fields count.
		return product(r.firstCount(fieldNPredict, fieldMaxCompletionTokens, fieldMaxTokens), max(r.choices(), count(r.b, r.at[fieldNCmpl])))
	case OllamaChat, OllamaGenerate:
		return r.limitInside(r.at[fieldOptions], "num_predict", true)
	case Generate, GenerateStream, Root:
		return max(
			r.limitInside(r.at[fieldParameters], "max_new_tokens", false),
			r.limits(r.at[fieldSamplingParams]),
		)
	}
	return 0
}

// firstCount returns the first of the counts that is not zero.
func (r *reading) firstCount(fields ...field) int {
	for _, f := range fields {
		if v := r.at[f]; !v.absent() {
			if n := count(r.b, v); n > 0 {
				return n
			}
		}
	}
	return 0
}

func (r *reading) choices() int {
	return max(1, count(r.b, r.at[fieldN]), count(r.b, r.at[fieldBestOf]))
}

// limits adds up SGLang's sampling parameters, which may come as a list with one
// object for each prompt.
func (r *reading) limits(v span) int {
	if !isList(r.b, v) {
		return r.limitInside(v, "max_new_tokens", false)
	}
	sum := 0
	for w := r.into(v.lo); ; {
		at, ok := w.next()
		if !ok {
			return sum
		}
		sum = min(maxCount, sum+r.limitInside(w.value(at), "max_new_tokens", false))
	}
}

// limitInside reads the limit from the object at v, times the sequences that
// the same object asks for.
func (r *reading) limitInside(v span, name string, anyCase bool) int {
	if v.absent() || r.b[v.lo] != '{' {
		return 0
	}
	tokens, sequences := 0, 1
	for w := r.into(v.lo); ; {
		key, value, ok := w.member()
		if !ok {
			return product(tokens, sequences)
		}
		if anyCase {
			key = r.folded(key)
		}
		switch string(key) {
		case name:
			tokens = count(r.b, value)
		case "n", "best_of":
			sequences = max(sequences, count(r.b, value))
		}
	}
}
