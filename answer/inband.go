package answer

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// InBand finds the error in the beginning of an answer that began as a success,
// and returns it as the body of an error answer, nil if there is none in it. The
// engine's own JSON is unchanged: where the error stands by itself, in the root's
// error member, that is all of the event's data; where an event says in another
// way that it is an error, the object that describes it becomes the error member.
//
// It decodes what the [Reader] only scanned, so it is for answers with
// Facts.Failed set.
func InBand(head []byte) []byte {
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte(mark)))
	if valid(head) {
		return errorBody(head)
	}
	var (
		f      fields
		data   []byte
		failed bool // data is an error by the name of its field
	)
	// The blank line that the last event may lack is put in its place.
	for b := append(bytes.Clone(head), "\n\n"...); len(b) > 0; {
		n, part := f.next(b)
		switch part {
		case dataBegin, errorBegin:
			failed = part == errorBegin
			if len(data) > 0 {
				data = append(data, '\n')
			}
		case value:
			data = append(data, b[:n]...)
		case blank:
			if found := bodyOf(bytes.TrimSpace(data), failed); found != nil {
				return found
			}
			data, failed = data[:0], false
		default:
		}
		b = b[n:]
	}
	for line := range bytes.Lines(head) {
		if found := errorBody(bytes.TrimSpace(line)); found != nil {
			return found
		}
	}
	return nil
}

func bodyOf(data []byte, failed bool) []byte {
	if failed && valid(data) {
		if body := errorBody(data); body != nil {
			return body
		}
		return wrapped(data)
	}
	return errorBody(data)
}

// errorBody returns the error body that the data of an event are, or nil.
func errorBody(data []byte) []byte {
	switch kind := jsontext.Value(data).Kind(); kind {
	case '[':
		var list []jsontext.Value
		if json.Unmarshal(data, &list, tolerant) != nil {
			return nil
		}
		for _, v := range list {
			if v.Kind() == '{' {
				if body := errorBody(v); body != nil {
					return body
				}
			}
		}
		return nil
	case '{':
	default:
		return nil
	}
	var event struct {
		Type     jsontext.Value `json:"type"`
		Object   jsontext.Value `json:"object"`
		Error    jsontext.Value `json:"error"`
		Response jsontext.Value `json:"response"`
	}
	if json.Unmarshal(data, &event, tolerant) != nil {
		return nil
	}
	if isError(event.Error) {
		return bytes.Clone(data)
	}
	if event.Response.Kind() == '{' {
		var inner struct {
			Error jsontext.Value `json:"error"`
		}
		if json.Unmarshal(event.Response, &inner, tolerant) == nil && isError(inner.Error) {
			return wrapped(inner.Error)
		}
	}
	switch {
	case string(event.Type) == `"response.failed"`, string(event.Type) == `"error"`, string(event.Object) == `"error"`:
		return wrapped(data)
	}
	return nil
}

// isError tells an error, in the two forms that there are, from what stands in
// the place of none.
func isError(v jsontext.Value) bool {
	return v.Kind() == '{' || v.Kind() == '"' && string(v) != `""`
}

func wrapped(failure []byte) []byte {
	b := append([]byte(`{"error":`), failure...)
	return append(b, '}')
}

// tolerant takes what engines may write and the scanner does not mind.
var tolerant = jsontext.AllowDuplicateNames(true)

func valid(data []byte) bool { return len(data) > 0 && jsontext.Value(data).IsValid(tolerant) }
