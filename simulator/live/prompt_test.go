package live

import (
	"encoding/json"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// tokenBytes is how long a token of the simulated tokenizer is.
const tokenBytes = 4

// words have a token each in most vocabularies, and with a blank tokenBytes, so that
// all who count tokens come to about the same.
var words = strings.Fields("act add age air all arm art ask bad bag bar bed big bit box boy bus buy can car " +
	"cat cut day dog dry ear eat end eye far few fit fly for gas get gun guy hit hot ice job key kid law leg " +
	"let lie lot low man map may men mix new now oil old one")

// piece is the first so many tokens of the text that an id stands for. Another id's
// text is another from its first words on.
func piece(b *strings.Builder, id uint64, tokens int) {
	for n := range tokens {
		if n%8 == 0 {
			id += 0x9e3779b97f4a7c15
		}
		x := (id ^ id>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		b.WriteString(words[x>>(7*(n%8)+8)%uint64(len(words))])
		b.WriteByte(' ')
	}
}

// text is a prompt of the row's length. Rows with equal leading ids have as many
// equal leading pieces; of a row without ids it is like no other.
func text(t *trace.Trace, row int) string {
	q := &t.Requests[row]
	var b strings.Builder
	b.Grow(q.Input * tokenBytes)
	left := q.Input
	for _, id := range q.Blocks {
		n := min(t.Block, left)
		piece(&b, id, n)
		left -= n
	}
	piece(&b, ^uint64(row), left)
	return b.String()
}

// body is the request that asks for what the row says. How long the answer will be
// is for the server alone to know, as in virtual time: its reader of JSON takes the
// field in any case, the gateway knows none of that name.
func body(t *trace.Trace, row int) []byte {
	b, err := json.Marshal(map[string]any{
		"model": "sim", "prompt": text(t, row), "MAX_TOKENS": t.Requests[row].Output,
		"stream": true, "stream_options": map[string]bool{"include_usage": true},
	})
	if err != nil {
		panic(err)
	}
	return b
}
