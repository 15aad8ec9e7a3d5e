package request

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// isString says that the value at v is a string.
func isString(b []byte, v span) bool { return !v.absent() && b[v.lo] == '"' }

// isList says that the value at v is an array.
func isList(b []byte, v span) bool { return !v.absent() && b[v.lo] == '[' }

// inner returns what stands between a string's quotes.
func inner(b []byte, v span) []byte { return b[v.lo+1 : v.hi-1] }

// appendUnescaped appends the characters that a string's inner bytes spell. The
// result is never longer than raw. Half a surrogate pair becomes U+FFFD, as
// with Go's own decoder; bytes that are not UTF-8 stay as they are.
func appendUnescaped(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+1 >= len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		c := raw[i+1]
		raw = raw[i+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, ok := hex4(raw)
			if !ok {
				break // not JSON: the engine answers
			}
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
					low, _ = hex4(raw[2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					raw = raw[6:]
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return -1, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// maxModel bounds the model's name in bytes. Features outlive the body, whose
// size is what the byte budget knows; a name of megabytes must not.
const maxModel = 1024

// modelName returns the value of "model", or "" when it is not a string. A
// longer name than any model has is cut: it stays a name that nobody serves.
func modelName(b []byte, v span) string {
	if !isString(b, v) {
		return ""
	}
	raw := inner(b, v)
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[:min(len(raw), maxModel)])
	}
	var buf [128]byte
	name := appendUnescaped(buf[:0], raw[:min(len(raw), 6*maxModel)])
	return string(name[:min(len(name), maxModel)])
}

// maxCount caps what is read as a number of tokens or choices, so that sums and
// products of clients' claims cannot overflow.
const maxCount = math.MaxInt32

// count reads a number of things: 0 when absent, negative or no number. Python
// engines also take a whole number written as a fraction or in a string.
func count(b []byte, v span) int {
	if v.absent() {
		return 0
	}
	text := v.in(b)
	if text[0] == '"' {
		text = inner(b, v)
	}
	const enough = 64 // digits; longer ones are not meant seriously
	if len(text) == 0 || len(text) > enough {
		return 0
	}
	if digitsEnd(text, 0) != len(text) {
		return countFloat(text)
	}
	n := uint64(0)
	for _, c := range text {
		if n = n*10 + uint64(c-'0'); n >= maxCount {
			return maxCount
		}
	}
	return int(n)
}

func countFloat(text []byte) int {
	if literalEnd(text, 0) != len(text) {
		return 0 // in a string, and no number as JSON writes it
	}
	x, err := strconv.ParseFloat(string(text), 64)
	switch {
	case x != x || x < 1 || math.IsInf(x, 0) && err == nil:
		return 0
	case x >= maxCount:
		return maxCount
	}
	return int(x)
}

// truth reads a switch the way Python engines do: true, 1, or a word for it.
func truth(b []byte, v span) bool {
	if v.absent() {
		return false
	}
	text := v.in(b)
	if text[0] == '"' {
		text = inner(b, v)
	}
	if len(text) > len("false") {
		return false
	}
	var buf [8]byte
	switch string(foldCase(append(buf[:0], text...))) {
	case "true", "1", "t", "yes", "y", "on", "1.0":
		return true
	}
	return false
}
