package request

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// limitIn reports whether the top-level field of a dialect whose prompt is not
// read says how long the answer may get, or holds the object that does. These
// are no interpreted fields: a limit only makes an estimate, so nothing is
// refused for them, and of two the last one counts, as it does to engines.
func limitIn(api string, name []byte) bool {
	switch api {
	case Responses:
		return string(name) == "max_output_tokens"
	case OllamaChat, OllamaGenerate:
		return string(name) == "options"
	case Generate, GenerateStream, Root:
		return string(name) == "parameters" || string(name) == "sampling_params"
	case Completion:
		return string(name) == "n_predict"
	}
	return false
}

// native reads what a body in a dialect whose prompt is not read tells without
// it. Of a body that is not whole only the dialect is known.
func (r *reading) native(f *llmlb.Features, whole bool) {
	if f.API == "" || readsPrompt(f.API) {
		return
	}
	switch f.API {
	case GenerateStream:
		f.Stream = true
	case OllamaChat, OllamaGenerate:
		f.Stream = !whole || r.at[fieldStream].absent() || truth(r.b, r.at[fieldStream])
	default:
		f.Stream = whole && truth(r.b, r.at[fieldStream])
	}
	if !whole {
		return
	}
	f.Model = modelName(r.b, r.at[fieldModel])
	f.MaxOutputTokens = r.nativeLimit(f.API)
}

// nativeLimit returns the ceiling on generated tokens, 0 when there is none.
// Minus one means that too, where it means anything.
func (r *reading) nativeLimit(api string) int {
	limit := r.limit
	if !limit.absent() && r.b[limit.lo] == 'n' {
		limit = span{}
	}
	switch api {
	case OllamaChat, OllamaGenerate:
		return r.limitInside(limit, "num_predict")
	case Generate, GenerateStream, Root:
		return r.limitInside(limit, "max_new_tokens")
	case Messages:
		limit = r.at[fieldMaxTokens]
	case Completion:
		if limit.absent() {
			limit = r.at[fieldMaxTokens] // another name for it
		}
	}
	return count(r.b, limit)
}

// limitInside reads the limit from the object at v, times the sequences that
// the same object asks for.
func (r *reading) limitInside(v span, name string) int {
	if v.absent() || r.b[v.lo] != '{' {
		return 0
	}
	tokens, sequences := 0, 1
	for w := r.into(v.lo); ; {
		key, value, ok := w.member()
		if !ok {
			return product(tokens, sequences)
		}
		switch string(key) {
		case name:
			tokens = count(r.b, value)
		case "n", "best_of":
			sequences = max(sequences, count(r.b, value))
		}
	}
}
