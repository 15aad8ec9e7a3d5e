package request

import (
	"bytes"
	"encoding/json"
)

// Rename returns the body with another model in it: the bytes of the value of the
// outermost object's "model", however that key is spelled, become the name as a
// JSON string. All other bytes stay as they are, also where they say "model". The
// body given is never changed.
//
// ok is false, and the body is returned as it came, when it is not a whole JSON
// object, when it has no model or one that is no string, and when engines might
// disagree about which one counts: see [Read], which refuses such bodies.
func Rename(body []byte, name string) (out []byte, ok bool) {
	var r reading
	whole, refusal := r.top(Chat, body, &Options{MaxDepth: maxMaxDepth, AllowFields: allFields})
	model := r.at[fieldModel]
	if refusal != nil || !whole || !isString(body, model) {
		return body, false
	}
	return splice(body, model, quote(name)), true
}

// quote writes a string as JSON does, and no more than it must.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings cannot fail
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// ModelOf returns the model that a body of any dialect names, as [Rename] finds
// it, or "" where that changes nothing.
func ModelOf(body []byte) string {
	var r reading
	whole, refusal := r.top(Chat, body, &Options{MaxDepth: maxMaxDepth, AllowFields: allFields})
	if refusal != nil || !whole {
		return ""
	}
	return modelName(body, r.at[fieldModel])
}
