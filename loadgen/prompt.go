package loadgen

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
)

// words are so short and so common that most vocabularies have each, with the
// space before it, as one token, and all are of one length, so that servers which
// count bytes agree.
var words = strings.Fields(`
	the and for you not are but had has her one our out day get him his how man new
	now old see two way who boy did its let put say she too use any may all can big
	few got end own red run sea set sun ten top try yes air ask car cut dog eat eye
	far fly job key law low map oil pay`)

// writeWords appends so many words to b, a space after each.
func writeWords(b *strings.Builder, n int, r *rand.Rand) {
	b.Grow(n * (len(words[0]) + 1))
	for range n {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
}

// Streams of chance that are no job's.
const (
	prefixStream  = 0x70726566 << 32
	arrivalStream = 0x61727276 << 32
	clientStream  = 0x636c6e74 << 32
)

// prefix is the text that begins some requests of a class.
func (p *planner) prefix(class, n int) string {
	var b strings.Builder
	writeWords(&b, p.s.Classes[class].PrefixTokens, p.source(prefixStream+uint64(class)*maxPrefixes+uint64(n)))
	return b.String()
}

// own is a job's own text.
func (j *job) own() string {
	var b strings.Builder
	writeWords(&b, j.input, rand.New(rand.NewPCG(j.text, 0)))
	return b.String()
}

// message is one of a conversation.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// conversation is what was said so far, the prefix included.
type conversation []message

// begin is the conversation before a job's own text.
func (p *planner) begin(j *job) conversation {
	if j.prefix < 0 {
		return nil
	}
	return conversation{{"system", p.prefix(j.class, j.prefix)}}
}

type body struct {
	Model    string       `json:"model,omitempty"`
	Messages conversation `json:"messages,omitempty"`
	Prompt   string       `json:"prompt,omitempty"`
	Tokens   int          `json:"max_tokens"`
	Stream   bool         `json:"stream"`
	Options  struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
	IgnoreEOS bool `json:"ignore_eos,omitempty"`
}

// encode is the request's body.
func (s *Scenario) encode(c conversation, output int) []byte {
	b := body{Model: s.Model, Tokens: output, Stream: true, IgnoreEOS: s.IgnoreEOS}
	b.Options.Usage = true
	if s.API == completions {
		for _, m := range c {
			b.Prompt += m.Content
		}
	} else {
		b.Messages = c
	}
	raw, err := json.Marshal(&b)
	if err != nil {
		panic(err) // strings, numbers and booleans can be encoded
	}
	return raw
}
