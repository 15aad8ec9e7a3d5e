package answer

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxHeld bounds how much of an event a UsageFilter holds back. A chunk with
// usage has a few hundred bytes.
const maxHeld = 64 << 10

// UsageFilter removes, from a stream of chat completions or completions, the
// chunks that hold usage and no choices, with their blank lines. Every other byte
// passes unchanged, and at once: an event is held back only while it may still
// turn out to be such a chunk, and never more than 64 KiB of it. The zero value
// is ready for a stream.
type UsageFilter struct {
	fields fields
	scan   scanner
	facts  tally
	held   []byte // of the current event, from the pieces before

	inside  bool // an event has begun
	passes  bool // and it is no chunk with usage alone
	object  bool // its data begin with a brace
	dropped bool // the last event was removed, and a LF may still belong to it
}

// Filter appends to dst what may pass now of what was held and of src, the next
// piece of the stream.
func (f *UsageFilter) Filter(dst, src []byte) []byte {
	if f.scan.facts == nil {
		f.reset()
	}
	passed := 0 // src is done with up to here
	begin := 0  // of the current event in src
	for i := 0; i < len(src); {
		if !f.inside {
			begin = i
		}
		n, part := f.fields.next(src[i:])
		i += n
		switch {
		case f.inside || part != half && part != blank:
			f.inside = true
			f.look(src[i-n:i], part)
		case part == half && f.dropped:
			dst = append(dst, src[passed:i-n]...)
			passed = i
		}
		f.dropped = false
		if !f.inside {
			continue
		}
		f.passes = f.passes || len(f.held)+i-begin > maxHeld
		if f.passes && len(f.held) > 0 {
			dst = f.release(dst)
		}
		if part != blank {
			continue
		}
		if !f.passes {
			event := src[begin:i]
			if len(f.held) > 0 {
				f.held = append(f.held, event...)
				event, passed = f.held, i
			}
			if usageOnly(event) {
				if len(f.held) == 0 {
					dst = append(dst, src[passed:begin]...)
					passed = i
				}
				f.held, f.dropped = f.held[:0], true
			}
			dst = f.release(dst)
		}
		f.reset()
	}
	if f.inside && !f.passes {
		dst = append(dst, src[passed:max(passed, begin)]...)
		f.held = append(f.held, src[max(passed, begin):]...)
		return dst
	}
	return append(dst, src[passed:]...)
}

// Flush appends to dst what was held, if that may pass: the stream has ended.
func (f *UsageFilter) Flush(dst []byte) []byte {
	if usageOnly(f.held) {
		f.held = f.held[:0]
	}
	dst = f.release(dst)
	*f = UsageFilter{held: f.held}
	return dst
}

// release lets pass what was held.
func (f *UsageFilter) release(dst []byte) []byte {
	dst = append(dst, f.held...)
	f.held = f.held[:0]
	return dst
}

// reset makes ready for the next event.
func (f *UsageFilter) reset() {
	f.scan.facts, f.scan.under = &f.facts, choicesAndUsage
	f.scan.reset(root)
	f.inside, f.passes, f.object = false, false, false
}

// look takes in a piece of the current event, and notes when it cannot become a
// chunk with usage alone.
func (f *UsageFilter) look(b []byte, part part) {
	switch {
	case f.passes:
	case part == errorBegin:
		f.passes = true
	case part == value:
		if !f.object {
			b = bytes.TrimLeft(b, " \t")
			if len(b) == 0 {
				return
			}
			f.object = b[0] == '{'
		}
		f.scan.scan(b)
		f.passes = !f.object || f.scan.chosen || f.scan.closed && !f.scan.counted
	}
}

func choicesAndUsage(p place, key []byte) place {
	if p == root {
		switch string(key) {
		case "choices":
			return choices
		case "usage":
			return usage
		}
	}
	return elsewhere
}

// usageOnly decides what an event is, by decoding it: the scanner only told that
// it may be one.
func usageOnly(event []byte) bool {
	var (
		f    fields
		data []byte
	)
	for len(event) > 0 {
		n, part := f.next(event)
		switch part {
		case dataBegin:
			data = append(data, '\n')
		case value:
			data = append(data, event[:n]...)
		case errorBegin:
			return false
		default:
		}
		event = event[n:]
	}
	var chunk struct {
		Choices jsontext.Value `json:"choices"`
		Usage   jsontext.Value `json:"usage"`
	}
	if len(data) == 0 || json.Unmarshal(data, &chunk) != nil || chunk.Usage.Kind() != '{' || chunk.Choices.Kind() != '[' {
		return false
	}
	var choices []jsontext.Value
	return json.Unmarshal(chunk.Choices, &choices) == nil && len(choices) == 0
}
