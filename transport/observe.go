package transport

import "bytes"

// observer reads an answer along, in pieces cut anywhere. What it notes depends
// on the bytes alone, never on how they were cut.
type observer interface {
	observe(b []byte)
	told() *facts
}

// wholeJSON observes an answer that is one JSON object.
type wholeJSON struct {
	facts facts
	scan  scanner
}

func newWholeJSON() *wholeJSON {
	o := &wholeJSON{facts: newFacts()}
	o.scan.facts = &o.facts
	o.scan.reset()
	return o
}

func (o *wholeJSON) observe(b []byte) { o.scan.scan(b) }

func (o *wholeJSON) told() *facts { return &o.facts }

// eventStream observes server-sent events whose data are OpenAI chunks. Lines
// may end in LF, CRLF or CR, and events may be of any size: nothing of them is
// kept but the scanner's few bytes.
type eventStream struct {
	facts   facts
	scan    scanner
	pattern pattern

	line    lineState
	matched int  // bytes of "data:", or of "[DONE]", that have matched
	cr      bool // the byte before was a CR that ended a line
	clean   bool // nothing of the current event was scanned yet
}

type lineState uint8

const (
	atName   lineState = iota // at the beginning of a line, or in "data:"
	atData                    // in the value of a data field
	skipping                  // in a line that means nothing
)

const (
	dataField = "data:"
	doneData  = "[DONE]"
)

func newEventStream() *eventStream {
	o := &eventStream{facts: newFacts(), clean: true}
	o.scan.facts = &o.facts
	o.scan.reset()
	return o
}

func (o *eventStream) told() *facts { return &o.facts }

func (o *eventStream) observe(b []byte) {
	for len(b) > 0 {
		if o.line != atName || o.matched > 0 || !o.clean || o.cr {
			b = b[o.step(b):]
			continue
		}
		// Between two events.
		if n, text := o.pattern.skip(b); n > 0 {
			if text > 0 {
				o.facts.tokens++
			}
			b = b[n:]
			continue
		}
		o.pattern.head = 0
		event := wholeEvent(b)
		if event == nil {
			b = b[o.step(b):]
			continue
		}
		o.scan.texts, o.scan.other = 0, false
		o.steps(event)
		if o.facts.tokens > 0 && o.scan.texts == 1 && !o.scan.other {
			o.pattern.learn(event, len(dataField)+o.scan.from, len(dataField)+o.scan.to)
		}
		b = b[len(event):]
	}
}

// step takes in the beginning of b and returns how much that was: a byte of a
// field's name, or the rest of a line.
func (o *eventStream) step(b []byte) int {
	switch o.line {
	case atName:
		return o.name(b[0])
	case atData:
		end := lineEnd(b)
		o.data(b[:end])
		return o.newLine(b, end)
	default:
		return o.newLine(b, lineEnd(b))
	}
}

func (o *eventStream) steps(b []byte) {
	for len(b) > 0 {
		b = b[o.step(b):]
	}
}

// name takes in one byte of a line that may become a data field.
func (o *eventStream) name(c byte) int {
	second := o.cr && c == '\n' // half of a CRLF
	o.cr = false
	switch {
	case second:
	case c == '\n' || c == '\r':
		if o.matched == 0 && !o.clean { // an empty line ends the event
			o.scan.reset()
			o.clean = true
		}
		o.cr, o.matched = c == '\r', 0
	case c == dataField[o.matched]:
		if o.matched++; o.matched == len(dataField) {
			o.line, o.matched = atData, 0
		}
	default:
		o.line = skipping
	}
	return 1
}

// newLine goes on behind the line end at i, if b reaches that far.
func (o *eventStream) newLine(b []byte, i int) int {
	if i == len(b) {
		return i
	}
	o.cr = b[i] == '\r'
	o.line, o.matched = atName, 0
	return i + 1
}

func (o *eventStream) data(b []byte) {
	if len(b) == 0 {
		return
	}
	o.clean = false
	for _, c := range b {
		if o.matched < 0 || o.matched == len(doneData) {
			break
		}
		switch {
		case c == doneData[o.matched]:
			if o.matched++; o.matched == len(doneData) {
				o.facts.done = true
			}
		case c == ' ' && o.matched == 0:
		default:
			o.matched = -1
		}
	}
	o.scan.scan(b)
}

// lineEnd is the index of the first CR or LF, or the length of b.
func lineEnd(b []byte) int {
	end := indexFrom(b, 0, '\n')
	if cr := bytes.IndexByte(b[:end], '\r'); cr >= 0 {
		return cr
	}
	return end
}

// maxPattern bounds the pattern, and with it what a stream holds.
const maxPattern = 512

// pattern is an event around the one string of generated text in it. The events
// of a long answer differ in nothing else, so most are passed over with two
// comparisons: whatever the first of them said, the next would only repeat. Only
// whether there is a token in it depends on the text, which may be empty.
type pattern struct {
	bytes      [maxPattern]byte
	head, tail int // lengths; the tail follows the head
}

// skip returns the length of the event that b begins with if it follows the
// pattern, and that of the text in it; otherwise 0.
func (p *pattern) skip(b []byte) (event, text int) {
	if p.head == 0 || !bytes.HasPrefix(b, p.bytes[:p.head]) {
		return 0, 0
	}
	i := p.head
	for ; i < len(b) && b[i] != '"'; i++ {
		if b[i] == '\\' || b[i] < ' ' {
			return 0, 0
		}
	}
	if !bytes.HasPrefix(b[i:], p.bytes[p.head:p.head+p.tail]) {
		return 0, 0
	}
	return i + p.tail, i - p.head
}

// learn makes a pattern of the event, whose generated text is at from to to.
func (p *pattern) learn(event []byte, from, to int) {
	if len(event) > maxPattern {
		return
	}
	p.head = copy(p.bytes[:], event[:from])
	p.tail = copy(p.bytes[p.head:], event[to:])
}

// wholeEvent returns the event of one data line that b begins with, its blank
// line included, or nil if it has not come whole or is of another shape.
func wholeEvent(b []byte) []byte {
	end := bytes.IndexByte(b, '\n')
	if end < 0 || end+1 >= len(b) || b[end+1] != '\n' || !bytes.HasPrefix(b, []byte(dataField)) {
		return nil
	}
	if bytes.IndexByte(b[:end], '\r') >= 0 {
		return nil
	}
	return b[:end+2]
}
