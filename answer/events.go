package answer

import "bytes"

// events reads server-sent events. They may be of any size: nothing of them is
// kept but the scanner's few bytes.
type events struct {
	facts   tally
	scan    scanner
	pattern pattern
	fields  fields

	done   int  // bytes of "[DONE]" that have matched, -1 for not that
	clean  bool // nothing of the current event was scanned yet
	values int  // pieces of values in the current event
	bom    int  // bytes of a byte order mark at the very beginning, -1 behind it
}

// mark is the byte order mark that an event stream may begin with.
const mark = "\xEF\xBB\xBF"

const doneData = "[DONE]"

func newEvents(under grammar) *events {
	o := &events{facts: newTally(), clean: true}
	o.scan.facts, o.scan.under = &o.facts, under
	o.scan.reset(root)
	return o
}

func (o *events) Facts() *Facts { return &o.facts.Facts }

func (*events) Stream() bool { return true }

func (o *events) Observe(b []byte) {
	for o.bom >= 0 && len(b) > 0 {
		if o.bom == len(mark) || b[0] != mark[o.bom] {
			o.bom = -1
			break
		}
		o.bom++
		b = b[1:]
	}
	for len(b) > 0 {
		if !o.clean || !o.fields.start() {
			b = b[o.step(b):]
			continue
		}
		// Between two events.
		if n, text := o.pattern.skip(b); n > 0 {
			if text > 0 {
				o.facts.Tokens++
			}
			b = b[n:]
			continue
		}
		o.pattern.passOver()
		event := wholeEvent(b)
		if event == nil {
			b = b[o.step(b):]
			continue
		}
		o.atOnce(event)
		b = b[len(event):]
	}
}

// atOnce takes in a whole event, and learns a pattern from it if it can.
func (o *events) atOnce(event []byte) {
	o.scan.holes.n, o.values = 0, 0
	loose, counts := false, o.facts.counts
	for i := 0; i < len(event); {
		o.scan.base = i
		loose = loose || o.scan.loose // the blank line resets it
		i += o.step(event[i:])
	}
	o.scan.base = 0
	if o.facts.Tokens > 0 && o.values == 1 && !loose {
		o.pattern.learn(event, &o.scan.holes, o.facts.counts > counts)
	}
}

// step takes in the beginning of b and returns how much that was.
func (o *events) step(b []byte) int {
	n, part := o.fields.next(b)
	switch part {
	case value:
		o.clean = false
		o.values++
		o.marker(b[:n])
		o.scan.scan(b[:n])
	case dataBegin:
		o.done = 0
	case errorBegin:
		o.done = -1
		o.scan.reset(failure)
	case blank:
		if !o.clean {
			o.scan.reset(root)
			o.clean = true
		}
	default:
	}
	return n
}

// marker looks for the text that ends OpenAI's streams.
func (o *events) marker(b []byte) {
	for _, c := range b {
		if o.done < 0 || o.done == len(doneData) {
			return
		}
		switch {
		case c == doneData[o.done]:
			if o.done++; o.done == len(doneData) {
				o.facts.Done = true
			}
		case c == ' ' && o.done == 0:
		default:
			o.done = -1
		}
	}
}

// maxLines bounds how many lines of an event are looked at in search of its end,
// so that none is looked at more often than that.
const maxLines = 4

// wholeEvent returns the event that b begins with, its blank line included, or
// nil if it has not come whole, is of many lines, or these end in another way
// than in LF.
func wholeEvent(b []byte) []byte {
	i := 0
	for range maxLines {
		end := bytes.IndexByte(b[i:], '\n')
		if end < 0 || i+end+1 == len(b) {
			return nil
		}
		i += end + 1
		if b[i] != '\n' {
			continue
		}
		if bytes.IndexByte(b[:i], '\r') >= 0 {
			return nil
		}
		return b[:i+1]
	}
	return nil
}
