package answer

import "bytes"

const (
	// maxLevels is how deep places lie; deeper values are only counted.
	maxLevels = 8
	// maxText bounds what is kept of a key or of an error's words.
	maxText = 128
	// maxNumber stops counts before they overflow.
	maxNumber = 1 << 40
)

type mode uint8

const (
	between mode = iota
	inString
	inNumber
)

// scanner walks one JSON value, given in pieces cut anywhere, and notes facts as
// it passes them. It allocates nothing, keeps nothing of the text but the current
// key, and takes anything: what is not JSON teaches it nothing.
type scanner struct {
	facts *tally
	under grammar
	whole bool // the value is the answer: it ends where the value does

	mode    mode
	wantKey bool // the next string is a member's name
	isKey   bool // the current string is
	escaped bool // the next byte belongs to an escape
	spoke   bool // something generated was seen in this value
	loose   bool // and some of it is no string with a hole around it
	chosen  bool // .choices has an object in it
	counted bool // .usage is an object
	closed  bool // the outermost object or list has closed
	depth   int
	levels  [maxLevels + 1]level
	slot    place // of the value that comes next
	number  int
	text    [maxText]byte
	n       int

	// For the caller that scans a whole event at once: base is added to places
	// in the piece to make them places in the event.
	base  int
	holes holes
}

// level is an open object or list. Level 0 is none.
type level struct {
	place  place
	object bool
}

// reset makes the scanner ready for the next value, which stands at p.
func (s *scanner) reset(p place) {
	s.mode, s.wantKey, s.escaped, s.depth, s.slot = between, false, false, 0, p
	s.spoke, s.loose, s.chosen, s.counted, s.closed = false, false, false, false, false
	s.facts.next()
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
				s.begins()
				if s.slot >= failure {
					s.beginString(i)
				}
			}
		case '{', '[':
			s.begins()
			s.open(c == '{')
		case '}', ']':
			s.close()
		case ',':
			s.next()
		case ':':
			s.wantKey = false
		case 't': // true: only that has this letter first
			if s.slot == ended {
				s.finished()
			}
		case '-':
			s.beginNumber(i - 1)
			s.slot = elsewhere // no count is negative
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			s.begins()
			s.beginNumber(i - 1)
			s.mode, s.number = inNumber, int(c-'0')
		}
	}
}

// begins notes that a value begins: any value inside tool calls or audio, however
// small, is something the model generated.
func (s *scanner) begins() {
	if s.depth <= maxLevels && s.levels[s.depth].place == token {
		s.loose = true
		s.generated()
	}
}

// generated counts the value as one with a token, however many are in it.
func (s *scanner) generated() {
	if !s.spoke {
		s.spoke = true
		s.facts.Tokens++
	}
}

// finished notes the dialect's mark of the end. In an answer that comes whole it
// is no mark of that.
func (s *scanner) finished() {
	if !s.whole {
		s.facts.Finished = true
	}
}

func (s *scanner) open(object bool) {
	p := s.slot
	switch {
	case object && p == finish:
		s.finished()
	case object && p == failure:
		s.facts.fail()
	case object && p == usage:
		s.counted = true
	case object && p == choice:
		s.chosen = true
	}
	s.depth++
	if s.depth <= maxLevels {
		s.levels[s.depth] = level{place: p, object: object}
	}
	s.next()
}

func (s *scanner) close() {
	s.wantKey, s.slot = false, elsewhere
	if s.depth == 0 {
		return
	}
	if s.depth--; s.depth == 0 {
		s.closed = true
		s.facts.Finished = s.facts.Finished || s.whole
	}
}

// next makes ready for the next member or element of the innermost container.
func (s *scanner) next() {
	s.slot, s.wantKey = elsewhere, false
	if s.depth > maxLevels {
		return
	}
	if l := s.levels[s.depth]; l.object {
		s.wantKey = true
	} else {
		s.slot = l.place.element()
	}
}

// beginString notes a string that is a value and whose text begins at i.
func (s *scanner) beginString(i int) {
	switch s.slot {
	case token:
		s.holes.add(s.base+i, textHole)
	case varying:
		s.holes.add(s.base+i, wordHole)
	case final:
		s.finished()
	default:
	}
}

func (s *scanner) beginNumber(i int) {
	if s.slot == varying {
		s.holes.add(s.base+i, numberHole)
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
		begin := i
		if i += back + 2; i > len(b) { // the escape goes on in the next piece
			s.content(b[begin:])
			s.escaped = true
			return len(b)
		}
		if s.hears() {
			s.content(b[begin:i])
		}
		if i > quote {
			quote = indexFrom(b, i, '"')
		}
	}
	if s.hears() {
		s.content(b[i:quote])
	}
	if quote == len(b) {
		return quote
	}
	s.mode = between
	switch {
	case s.isKey:
		s.named()
	case s.slot >= failure:
		s.holes.end(s.base + quote)
		s.said(s.text[:s.n])
	}
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
	if s.isKey {
		// A key of another length than any known one must not pass for one.
		s.n += copy(s.text[s.n:], p)
	} else if len(p) > 0 {
		s.value(p)
	}
}

// hears reports whether what is in the current string can still teach anything.
func (s *scanner) hears() bool {
	return s.isKey || s.slot >= failure && (s.slot != token || !s.spoke)
}

// named takes in a member's name.
func (s *scanner) named() {
	s.wantKey, s.slot = false, elsewhere
	if s.depth <= maxLevels {
		s.slot = s.under(s.levels[s.depth].place, s.text[:s.n])
	}
}

// value takes in a piece, not empty, of a string that is a value.
func (s *scanner) value(p []byte) {
	switch s.slot {
	case token:
		s.generated()
	case final:
		s.loose = true
		s.generated()
	case finish:
		s.finished()
	case failure:
		s.facts.fail()
		s.n += copy(s.text[s.n:], p)
	case kind, code, word, message:
		s.n += copy(s.text[s.n:], p)
	default:
	}
}

// said takes in the beginning of a string that is a value.
func (s *scanner) said(text []byte) {
	switch s.slot {
	case kind:
		s.event(text)
	case code, word:
		s.facts.blame.word(text)
		s.facts.judge()
	case failure, message:
		s.facts.blame.message(text)
		s.facts.judge()
	default:
	}
}

// event takes in what an event says it is.
func (s *scanner) event(name []byte) {
	switch string(name) {
	case "message_stop", "response.completed", "response.incomplete":
		s.finished()
	case "error", "response.failed":
		s.facts.fail()
	}
}
