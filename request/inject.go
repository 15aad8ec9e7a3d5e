package request

import (
	"bytes"
	"slices"
)

const (
	usageOption  = "include_usage"
	usageAsked   = `"include_usage":true`
	usageOptions = `{` + usageAsked + `}`
)

// InjectUsage returns the body of a streaming chat or completion with
// stream_options.include_usage set to true, so that the engine's stream ends
// with a chunk of usage. All other bytes stay as they are. The body given is
// never changed; when it asks for usage already, it is returned itself.
//
// ok is false, and the body is returned as it came, when it is not a whole JSON
// object, when the field or the option is of another type than it should be, or
// when engines might disagree about which one counts: a field that appears
// twice or in another letter case. The engine answers for all of these.
func InjectUsage(body []byte) (out []byte, ok bool) {
	var r reading
	options, end, ok := r.streamOptions(body)
	switch {
	case !ok:
		return body, false
	case options.absent():
		return splice(body, span{end, end}, member(body, end, `"stream_options":`+usageOptions)), true
	case body[options.lo] == 'n':
		return splice(body, options, usageOptions), true
	case body[options.lo] != '{':
		return body, false
	}

	var asked span
	w := r.into(options.lo)
	for {
		key, at, more := w.key()
		if !more {
			break
		}
		named, exact := usageKey(key)
		value := w.value(at)
		if !named {
			continue
		}
		if !exact || !asked.absent() {
			return body, false
		}
		asked = value
	}
	if asked.absent() {
		return splice(body, span{options.hi - 1, options.hi - 1}, member(body, options.hi-1, usageAsked)), true
	}
	switch string(asked.in(body)) {
	case "true":
		return body, true
	case "false", "null":
		return splice(body, asked, "true"), true
	}
	return body, false
}

// streamOptions finds the value of stream_options, null included, and where the
// bracket is that closes the body.
func (r *reading) streamOptions(body []byte) (options span, end int, ok bool) {
	whole, refusal := r.top("", body, &Options{MaxDepth: maxMaxDepth, AllowFields: allFields})
	if refusal != nil || !whole {
		return span{}, 0, false
	}
	w := r.into(bytes.IndexByte(body, '{'))
	for {
		at, more := w.next()
		if !more {
			return options, w.at - 1, true
		}
		colon := keyEnd(body, at)
		f, exact := lookup(body[at+1 : stringEnd(body, at+1)])
		value := w.value(skipSpace(body, colon))
		if f == fieldStreamOptions {
			if !exact {
				return span{}, 0, false
			}
			options = value
		}
	}
}

// allFields lets every steering field pass: whoever asks for usage has judged
// the body before.
var allFields = func() map[string]bool {
	all := make(map[string]bool)
	for _, name := range SteeringFields() {
		all[name] = true
	}
	return all
}()

// usageKey reports whether an unescaped key is the option's name, and whether
// it is so in every engine's eyes.
func usageKey(key []byte) (named, exact bool) {
	if string(key) == usageOption {
		return true, true
	}
	if len(key) > maxName {
		return false, false
	}
	return string(foldCase(slices.Clone(key))) == usageOption, false
}

// member is a new last member of the object that closes at end, with a comma
// when it is not the only one.
func member(b []byte, end int, text string) string {
	before := bytes.TrimRight(b[:end], " \n\t\r")
	if before[len(before)-1] == '{' {
		return text
	}
	return "," + text
}

// splice returns the body with the bytes at v replaced, in memory of its own.
func splice(body []byte, v span, text string) []byte {
	out := make([]byte, 0, len(body)-(v.hi-v.lo)+len(text))
	out = append(out, body[:v.lo]...)
	out = append(out, text...)
	return append(out, body[v.hi:]...)
}
