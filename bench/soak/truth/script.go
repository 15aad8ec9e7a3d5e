package truth

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// Script writes an answer that says of itself what it is. Each piece is one word,
// "id/generation/number", perhaps with padding behind a "+". The last one is
// "id/generation/end/count/sum".
type Script struct {
	id, generation string
	pieces         int
	sum            uint64
}

// NewScript begins the answer of a generation to a request. Neither name may hold
// a space, a slash or a plus.
func NewScript(id, generation string) *Script {
	return &Script{id: id, generation: generation}
}

// Next is the next piece, padded to at least size bytes.
func (s *Script) Next(size int) string {
	text := s.id + "/" + s.generation + "/" + strconv.Itoa(s.pieces)
	if n := size - len(text) - 2; n > 0 {
		text += "+" + strings.Repeat("x", n)
	}
	text += " "
	s.pieces++
	s.sum = add(s.sum, text)
	return text
}

// End is the piece that ends the answer.
func (s *Script) End() string {
	return fmt.Sprintf("%s/%s/end/%d/%x ", s.id, s.generation, s.pieces, s.sum)
}

// Pieces is how many were written, the end not counted.
func (s *Script) Pieces() int { return s.pieces }

// add goes on with a checksum of texts.
func add(sum uint64, text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return sum*31 + h.Sum64()
}

// Sum is the checksum by which a server knows a request's body for whole.
func Sum(body []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(body)
	return h.Sum64()
}
