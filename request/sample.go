package request

import (
	"bytes"
	"unicode/utf8"
)

const (
	// samplePieces is how many pieces of a prompt are counted, and samplePiece
	// how long in bytes one is at most. Many short pieces tell more of a prompt
	// that is prose here and code or base64 there than few long ones. Each is
	// counted by itself, because the tokenizer's time grows with the square of
	// what it cannot split.
	samplePieces = 16
	samplePiece  = 64

	// sampleKept is how many pieces are kept while the prompt's end is not in
	// sight: of twice as many as are counted at least half are there whenever
	// it comes.
	sampleKept = 2 * samplePieces

	// enoughTokens ends the counting: text that has so many in its sample is short
	// of bytes per token, and what is costly to count has a token every byte or two.
	enoughTokens = 512

	// minRatio and maxRatio bound bytes per token, as for what is learned.
	minRatio, maxRatio = 1, 12
)

// sample is some of the text of a prompt, taken at even distances over all of it.
// How long the prompt will be is not asked: what the body's size says of it is off
// a thousandfold where there are pictures. Instead the distance doubles whenever
// the kept pieces are full, and every other one makes room. It lives as long as
// the reading of one body.
type sample struct {
	count  func(text string) int
	pieces [sampleKept][samplePiece]byte
	length int // of the text so far
	stride int // from the start of one piece to that of the next
}

// sampleFor readies the hasher to sample the text it will get, if the caller wants
// that for the model and there is something to count it with.
func (c *canon) sampleFor(o *Options, model string) {
	if o.Sample == nil || !o.Sample(model) {
		return
	}
	if count := tokenCounter(); count != nil {
		c.sample = newSample(count)
	}
}

// ratio returns how many bytes of the prompt's text make a token, by the sample;
// 0 without one.
func (c *canon) ratio() float64 {
	if c.sample == nil {
		return 0
	}
	return c.sample.ratio()
}

func newSample(count func(text string) int) *sample {
	return &sample{count: count, stride: samplePiece}
}

// write takes what it needs of the text that comes next.
func (s *sample) write(p []byte) {
	for len(p) > 0 {
		i, off := s.length/s.stride, s.length%s.stride
		if i == sampleKept {
			for k := 1; k < sampleKept/2; k++ {
				s.pieces[k] = s.pieces[2*k]
			}
			s.stride *= 2
			continue
		}
		n := min(len(p), s.stride-off)
		if off < samplePiece {
			n = copy(s.pieces[i][off:], p)
		}
		s.length += n
		p = p[n:]
	}
}

// taken returns how many pieces there are.
func (s *sample) taken() int { return (s.length + s.stride - 1) / s.stride }

// piece returns the i-th piece. Only the last may be short.
func (s *sample) piece(i int) []byte {
	return s.pieces[i][:min(samplePiece, s.length-i*s.stride)]
}

// ratio counts the sample: as many of the pieces as are counted, from the first to
// the last, or all where there are fewer. Text stands in the canonical prompt as it
// stands in the body, so what the escapes spell is counted and the bytes of the
// escapes are.
func (s *sample) ratio() float64 {
	n := s.taken()
	m := min(n, samplePieces)
	size, tokens, cuts := 0, 0, 0
	var buf [samplePiece]byte
	for k := range m {
		// Every other piece first, so that those lie everywhere which are counted
		// before there are enough tokens.
		if k *= 2; k >= m {
			k -= m - 1 + m%2
		}
		i := k
		if n > m {
			i = k * (n - 1) / (m - 1)
		}
		raw := clip(s.piece(i))
		size += len(raw)
		tokens += s.count(validText(appendUnescaped(buf[:0], raw)))
		if i > 0 {
			cuts++
		}
		if i < n-1 {
			cuts++
		}
		if tokens >= enoughTokens {
			break
		}
	}
	if tokens <= 0 {
		return 0
	}
	// A cut goes through a token, as a rule, of which half is another's.
	whole := max(1, float64(tokens)-float64(cuts)/2)
	return min(max(float64(size)/whole, minRatio), maxRatio)
}

// validText makes one byte of each run of bytes that are no UTF-8. The library would
// make a character of each, three bytes long, and a single word of all of them.
func validText(text []byte) string {
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("?"))
	}
	return string(text)
}

// maxEscape is how long an escape is at most.
const maxEscape = len(`\u0000`)

// clip leaves out what a cut has halved at either end of a piece: a character, or
// an escape of one. A prompt in a script that is escaped throughout is only some
// dozens of characters to a piece, and half an escape would count for three.
func clip(p []byte) []byte {
	return clipEnd(clipStart(p))
}

func clipStart(p []byte) []byte {
	for n := 0; n < utf8.UTFMax-1 && len(p) > 0 && !utf8.RuneStart(p[0]); n++ {
		p = p[1:]
	}
	// Digits right before an escape of the long form are the end of another.
	n := 0
	if n < len(p) && p[n] == 'u' {
		n++
	}
	for n < len(p) && n < maxEscape-1 && isHex(p[n]) {
		n++
	}
	if r, ok := longEscape(p[n:]); ok {
		if p = p[n:]; 0xDC00 <= r && r < 0xE000 {
			p = p[maxEscape:] // the second of a pair
		}
	}
	return p
}

func clipEnd(p []byte) []byte {
	// The last backslash that can have begun an escape which does not end here.
	for i := len(p) - 1; i >= 0 && i > len(p)-maxEscape; i-- {
		if p[i] != '\\' {
			continue
		}
		first := i
		for first > 0 && p[first-1] == '\\' {
			first--
		}
		if odd := (i-first)%2 == 0; odd && (i+1 == len(p) || p[i+1] == 'u') {
			p = p[:i]
		}
		break
	}
	if n := len(p) - maxEscape; n >= 0 {
		if r, ok := longEscape(p[n:]); ok && 0xD800 <= r && r < 0xDC00 {
			return p[:n] // the first of a pair
		}
	}
	for i := len(p) - 1; i >= 0 && i > len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				p = p[:i]
			}
			break
		}
	}
	return p
}

// longEscape reads the escape at the start of p, if it is one of the long form.
func longEscape(p []byte) (r rune, ok bool) {
	if len(p) < maxEscape || p[0] != '\\' || p[1] != 'u' {
		return 0, false
	}
	return hex4(p[2:])
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
