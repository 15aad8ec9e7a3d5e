package answer

import "bytes"

// fields takes server-sent events apart, given in pieces cut anywhere. Lines may
// end in LF, CRLF or CR.
type fields struct {
	line    lineState
	failing bool // the field is error, not data
	matched int  // bytes of the field's name that have matched
	cr      bool // the byte before was a CR that ended a line
}

type lineState uint8

const (
	atName   lineState = iota // at the beginning of a line, or in the field's name
	atValue                   // in the value of a data or error field
	skipping                  // in a line that means nothing
)

// part is what a piece of a stream is.
type part uint8

const (
	framing    part = iota // names, line ends, comments
	dataBegin              // the last byte of "data:"
	errorBegin             // the last byte of "error:"
	value                  // of such a field, without its line end
	blank                  // the line end of an empty line
	half                   // the LF behind a CR, which has ended the line already
)

const (
	dataField = "data:"
	// errorField is that of older llama.cpp builds, which no other reader of
	// server-sent events knows.
	errorField = "error:"
)

// start reports whether the next byte begins a line.
func (f *fields) start() bool { return f.line == atName && f.matched == 0 && !f.cr }

// next tells what b begins with, and how much of it that is: at least one byte.
func (f *fields) next(b []byte) (int, part) {
	if f.line == atName {
		if f.start() && len(b) >= len(dataField) && string(b[:len(dataField)]) == dataField {
			f.line = atValue // as name would find, byte by byte
			return len(dataField), dataBegin
		}
		return 1, f.name(b[0])
	}
	end := lineEnd(b)
	if end > 0 {
		if f.line == atValue {
			return end, value
		}
		return end, framing
	}
	f.cr = b[0] == '\r'
	f.line, f.matched = atName, 0
	return 1, framing
}

// name takes in one byte of a line that may become one of our fields.
func (f *fields) name(c byte) part {
	second := f.cr && c == '\n'
	f.cr = false
	switch {
	case second:
		return half
	case c == '\n' || c == '\r':
		empty := f.matched == 0
		f.cr, f.matched = c == '\r', 0
		if empty {
			return blank
		}
		return framing
	case f.matched == 0:
		f.failing = c == errorField[0]
	}
	name, begin := dataField, dataBegin
	if f.failing {
		name, begin = errorField, errorBegin
	}
	if c != name[f.matched] {
		f.line = skipping
		return framing
	}
	if f.matched++; f.matched < len(name) {
		return framing
	}
	f.line, f.matched = atValue, 0
	return begin
}

// lineEnd is the index of the first CR or LF, or the length of b.
func lineEnd(b []byte) int {
	end := indexFrom(b, 0, '\n')
	if cr := bytes.IndexByte(b[:end], '\r'); cr >= 0 {
		return cr
	}
	return end
}
