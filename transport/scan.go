package transport

import "bytes"

// place is where in an answer a JSON value stands, as far as anybody cares.
type place uint8

const (
	elsewhere  place = iota
	root             // the whole object
	choices          // .choices
	choice           // .choices[]
	delta            // .choices[].delta
	token            // what a generated token fills: text, tool calls, audio
	finish           // .choices[].finish_reason
	usage            // .usage, also inside a choice
	prompt           // .usage.prompt_tokens
	completion       // .usage.completion_tokens
	details          // .usage.prompt_tokens_details
	cached           // cached prompt tokens, under any of their names
	timings          // .timings, llama.cpp's
	failure          // .error
	code             // .error.code
	words            // .error.message, .error.type
)

// under tells which place the member of an object at p with the given key is.
// The compiler makes a search by length and bytes of each switch.
func under(p place, key []byte) place {
	switch p {
	case root:
		switch string(key) {
		case "choices":
			return choices
		case "usage":
			return usage
		case "timings":
			return timings
		case "error":
			return failure
		}
	case choice:
		switch string(key) {
		case "delta":
			return delta
		case "text":
			return token
		case "finish_reason":
			return finish
		case "usage":
			return usage
		}
	case delta:
		switch string(key) {
		case "content", "reasoning", "reasoning_content", "refusal", "tool_calls", "function_call", "audio":
			return token
		}
	case usage:
		switch string(key) {
		case "prompt_tokens":
			return prompt
		case "completion_tokens":
			return completion
		case "prompt_tokens_details":
			return details
		case "prompt_cache_hit_tokens":
			return cached
		}
	case details:
		if string(key) == "cached_tokens" {
			return cached
		}
	case timings:
		if string(key) == "cache_n" {
			return cached
		}
	case failure:
		switch string(key) {
		case "code", "http_status_code":
			return code
		case "message", "type":
			return words
		}
	default: // nothing in it is of use
	}
	return elsewhere
}

const (
	// maxLevels is how deep places lie; deeper values are only counted.
	maxLevels = 6
	// maxText bounds what is kept of a key or of an error's words.
	maxText = 64
	// maxNumber stops counts before they overflow.
	maxNumber = 1 << 40
)

type mode uint8

const (
	between mode = iota
	inString
	inNumber
)

// scanner walks one JSON object, given in pieces cut anywhere, and notes facts
// as it passes them. It allocates nothing, keeps nothing of the text but the
// current key, and takes anything: what is not JSON teaches it nothing.
type scanner struct {
	facts *facts

	mode    mode
	wantKey bool // the next string is a member's name
	isKey   bool // the current string is
	escaped bool // the next byte belongs to an escape
	spoke   bool // something generated was seen in this object
	other   bool // and it was no string by itself; see texts
	depth   int
	levels  [maxLevels + 1]level
	slot    place // of the value that comes next
	number  int
	text    [maxText]byte
	n       int

	// Generated strings so far, and where in its piece the last of them stood:
	// for the caller that scans a whole object at once.
	texts, from, to int
}

// level is an open object or array.
type level struct {
	place  place
	object bool
}

// reset makes the scanner ready for the next object.
func (s *scanner) reset() {
	s.mode, s.wantKey, s.escaped, s.depth, s.slot, s.spoke = between, false, false, 0, root, false
}

func (s *scanner) scan(b []byte) {
	for i := 0; i < len(b); {
		switch s.mode {
		case inString:
			i = s.string(b, i)
			continue
		case inNumber:
			c := b[i]
			if '0' <= c && c <= '9' {
				s.number = min(s.number*10+int(c-'0'), maxNumber)
				i++
				continue
			}
			s.mode = between
			s.facts.count(s.slot, s.number)
			s.slot = elsewhere // what follows in the number, as in 1.5, is no value of its own
		default:
		}
		c := b[i]
		i++
		switch c {
		case '"':
			s.mode, s.n = inString, 0
			s.isKey = s.wantKey
			if !s.isKey {
				s.value()
				s.from = i
			}
		case '{', '[':
			s.value()
			s.open(c == '{')
		case '}', ']':
			s.depth = max(0, s.depth-1)
			s.wantKey, s.slot = false, elsewhere
		case ',':
			s.next()
		case ':':
			s.wantKey = false
		case '-':
			s.slot = elsewhere // no count is negative
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			s.value()
			s.mode, s.number = inNumber, int(c-'0')
		}
	}
}

// value notes that a value begins: any value inside tool calls or audio, however
// small, is something the model generated.
func (s *scanner) value() {
	if 0 < s.depth && s.depth <= maxLevels && s.levels[s.depth].place == token {
		s.other = true
		s.generated()
	}
	if s.slot == failure && s.depth == 1 {
		s.facts.failed = true
	}
}

// generated counts the object as one with a token, however many are in it.
func (s *scanner) generated() {
	if !s.spoke {
		s.spoke = true
		s.facts.tokens++
	}
}

func (s *scanner) open(object bool) {
	p := s.slot
	switch {
	case object && (p == choices || p == finish), !object && p != choices && p != token:
		p = elsewhere
	}
	s.depth++
	if s.depth <= maxLevels {
		s.levels[s.depth] = level{place: p, object: object}
	}
	s.next()
}

// next makes ready for the next member or element of the innermost container.
func (s *scanner) next() {
	s.slot, s.wantKey = elsewhere, false
	if s.depth == 0 || s.depth > maxLevels {
		return
	}
	l := s.levels[s.depth]
	s.wantKey = l.object
	if !l.object && l.place == choices {
		s.slot = choice
	}
}

// string scans on within a string from i, and returns where it stopped: behind
// the closing quote or at the end of the piece. No byte is looked at more than
// twice, however many escapes there are.
func (s *scanner) string(b []byte, i int) int {
	if s.escaped {
		s.escaped = false
		s.content(b[i : i+1])
		i++
	}
	quote := indexFrom(b, i, '"')
	for {
		back := bytes.IndexByte(b[i:quote], '\\')
		if back < 0 {
			break
		}
		s.content(b[i : i+back+1])
		i += back + 1
		if i == len(b) {
			s.escaped = true
			return i
		}
		s.content(b[i : i+1])
		i++
		if i > quote {
			quote = indexFrom(b, i, '"')
		}
	}
	s.content(b[i:quote])
	if quote == len(b) {
		return quote
	}
	if s.slot == token && !s.isKey {
		s.texts++
		s.to = quote
	}
	s.end()
	return quote + 1
}

// indexFrom is the index of c at or after i, or the length of b.
func indexFrom(b []byte, i int, c byte) int {
	if n := bytes.IndexByte(b[i:], c); n >= 0 {
		return i + n
	}
	return len(b)
}

// content takes in a piece of the current string.
func (s *scanner) content(p []byte) {
	if len(p) == 0 {
		return
	}
	if !s.isKey {
		switch s.slot {
		case token:
			s.generated()
			return
		case finish:
			s.facts.finished = true
			return
		case code, words:
		default:
			return
		}
	}
	// A key of another length than any known one must not pass for one.
	s.n += copy(s.text[s.n:], p)
}

// end closes the current string.
func (s *scanner) end() {
	s.mode = between
	if !s.isKey {
		if s.slot == code || s.slot == words {
			s.facts.said(s.text[:s.n])
		}
		return
	}
	s.wantKey, s.slot = false, elsewhere
	if s.depth <= maxLevels {
		s.slot = under(s.levels[s.depth].place, s.text[:s.n])
	}
}
