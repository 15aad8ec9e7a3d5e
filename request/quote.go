package request

import (
	"bytes"
	"encoding/binary"
)

// stringEnd returns where the closing quote is of the string whose first byte
// is at i, or -1. It jumps from quote to quote and counts the backslashes in
// front of each; a run of them ends at the quote it was counted for, so none is
// counted twice.
func stringEnd(b []byte, i int) int {
	for at := i; ; {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return -1
		}
		at += n
		k := at
		for k > i && b[k-1] == '\\' {
			k--
		}
		if (at-k)%2 == 0 {
			return at
		}
		at++
		switch {
		case vectors && at < len(b):
			at += escapedQuotes(&b[at], len(b)-at)
		case n < denseQuotes:
			at = skipEscaped(b, at)
		}
	}
}

const (
	// denseQuotes is the distance in bytes below which the next quote is
	// expected soon: JSON within a string has one every ten bytes, and to start
	// IndexByte anew for each costs more than it finds.
	denseQuotes = 32

	// wordsAhead is how many bytes are then looked at by words, at a time which
	// does not depend on what is in them, and which is more than IndexByte's
	// where quotes are few.
	wordsAhead = 256
)

// skipEscaped steps over quotes that have one backslash in front, which end no
// string, where the machine cannot do so by itself. It returns where it stopped: no quote up to there ends one. The two
// bytes before i must be an escaped quote.
func skipEscaped(b []byte, i int) int {
	const step = 32
	for limit := i + wordsAhead; i < limit && i+step <= len(b); i += step {
		// With the two bytes before them, so that each word is there three
		// times: itself, and moved by one byte and by two.
		c := b[i-2 : i+step : i+step]
		_ = c[step+1]
		if otherQuotes(c[0:10])|otherQuotes(c[8:18])|otherQuotes(c[16:26])|otherQuotes(c[24:34]) != 0 {
			break
		}
	}
	return i
}

const (
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
	lowBits   = 0x7F * everyByte
	quotes    = '"' * everyByte
	slashes   = '\\' * everyByte
)

// otherQuotes marks the quotes among the last eight of ten bytes that have no
// backslash in front, or two.
func otherQuotes(c []byte) uint64 {
	x := binary.LittleEndian.Uint64(c[2:]) ^ quotes
	y := binary.LittleEndian.Uint64(c[1:]) ^ slashes
	z := binary.LittleEndian.Uint64(c) ^ slashes
	noQuote := (x&lowBits + lowBits) | x
	noSlash := (y&lowBits + lowBits) | y
	// May also mark a byte above a backslash, which then is looked at closely.
	slash := (z - everyByte) &^ z
	return highBits &^ noQuote & (noSlash | slash)
}
