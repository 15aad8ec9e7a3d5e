package request

// span is a piece of the body. The zero span stands for a value that is absent
// or null.
type span struct{ lo, hi int }

func (s span) in(b []byte) []byte { return b[s.lo:s.hi] }

func (s span) absent() bool { return s.hi == 0 }

// status is how scanning a value went.
type status uint8

const (
	scanned status = iota
	malformed
	tooDeep
)

// scanner finds the ends of JSON values. Which brackets are open is kept in a
// bit set rather than on the call stack: depth costs a bit, and an attacker who
// nests finds the bound before he finds memory.
type scanner struct {
	b     []byte
	max   int // how many brackets may be open at once
	stack [maxMaxDepth / 64]uint64
	long  longs

	name [maxName]byte // an unescaped key, see walk.key
}

func (s *scanner) open(depth int, object bool) {
	bit := uint64(1) << (depth % 64)
	if object {
		s.stack[depth/64] |= bit
	} else {
		s.stack[depth/64] &^= bit
	}
}

func (s *scanner) inObject(depth int) bool {
	return s.stack[depth/64]&(1<<(depth%64)) != 0
}

// value scans the value at or after i, inside depth open brackets, and returns
// where it ends.
func (s *scanner) value(i, depth int) (end int, st status) {
	b, base := s.b, depth
	for {
		i = skipSpace(b, i)
		if i >= len(b) {
			return i, malformed
		}
		switch c := b[i]; c {
		case '"':
			if i = s.long.end(b, i+1); i < 0 {
				return i, malformed
			}
			i++
		case '{', '[':
			if depth >= s.max {
				return i, tooDeep
			}
			s.open(depth, c == '{')
			depth++
			i = skipSpace(b, i+1)
			if i < len(b) && b[i] == c+2 { // '}' and ']' follow '{' and '[' at this distance
				i++
				depth--
				break
			}
			if c == '{' {
				if i = keyEnd(b, i); i < 0 {
					return i, malformed
				}
			}
			continue
		default:
			if i = literalEnd(b, i); i < 0 {
				return i, malformed
			}
		}

		// A value has ended: close what closes, then go on to the next one.
		for depth > base {
			i = skipSpace(b, i)
			if i >= len(b) {
				return i, malformed
			}
			object := s.inObject(depth - 1)
			c := b[i]
			i++
			if c == ',' {
				if object {
					if i = keyEnd(b, skipSpace(b, i)); i < 0 {
						return i, malformed
					}
				}
				break
			}
			if c == '}' && object || c == ']' && !object {
				depth--
				continue
			}
			return i, malformed
		}
		if depth == base {
			return i, scanned
		}
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// keyEnd returns where the value begins of the member whose key is at i, or -1.
func keyEnd(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if i = stringEnd(b, i+1); i < 0 {
		return -1
	}
	i = skipSpace(b, i+1)
	if i >= len(b) || b[i] != ':' {
		return -1
	}
	return i + 1
}

// literalEnd returns where the number or word at i ends, or -1.
func literalEnd(b []byte, i int) int {
	switch b[i] {
	case 't':
		return wordEnd(b, i, "true")
	case 'f':
		return wordEnd(b, i, "false")
	case 'n':
		return wordEnd(b, i, "null")
	case 'N':
		return wordEnd(b, i, "NaN")
	case 'I':
		return wordEnd(b, i, "Infinity")
	case '-':
		if i++; i < len(b) && b[i] == 'I' {
			return wordEnd(b, i, "Infinity")
		}
	}
	return numberEnd(b, i)
}

func wordEnd(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// numberEnd returns where the number ends whose first digit is at i, or -1.
func numberEnd(b []byte, i int) int {
	end := digitsEnd(b, i)
	if end == i || b[i] == '0' && end > i+1 {
		return -1
	}
	i = end
	if i < len(b) && b[i] == '.' {
		if end = digitsEnd(b, i+1); end == i+1 {
			return -1
		}
		i = end
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if end = digitsEnd(b, i); end == i {
			return -1
		}
		i = end
	}
	return i
}

func digitsEnd(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}
