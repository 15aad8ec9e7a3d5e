package virtual

import (
	"slices"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// passage is a piece of text of some tokens: equal ids are equal texts.
type passage struct {
	id     uint64
	tokens int
}

// prompt is a request as far as its cost goes: what is said to the model and
// what it will answer.
type prompt struct {
	text   []passage
	answer passage // what will be generated
	first  int     // how many passages lead up to the first user message; 0 is one
}

func (p *prompt) input() (tokens int) {
	for _, q := range p.text {
		tokens += q.tokens
	}
	return tokens
}

// features is what the request's reader makes of the prompt.
func (p *prompt) features() llmlb.Features {
	const bytes = bytesPerToken
	n := p.input()
	f := llmlb.Features{API: "chat", Model: model, Stream: true, InputTokens: n, PromptBytes: n * bytes}
	f.Blocks = make([]uint64, llmlb.BlockCount(n*bytes))
	w := walk{text: p.text}
	for i := range f.Blocks {
		f.Blocks[i] = w.hash(llmlb.BlockEnd(i+1) / bytes)
	}
	lead := 0
	for _, q := range p.text[:max(1, p.first)] {
		lead += q.tokens
	}
	w = walk{text: p.text}
	f.Key = w.hash(lead)
	return f
}

// request is what the engine is given: the answer's own blocks are named, so
// that the next turn of a conversation finds them.
func (p *prompt) request(id uint64, blockSize int) engine.Request {
	all := append(slices.Clip(p.text), p.answer)
	n := p.input()
	blocks := make([]uint64, (n+p.answer.tokens)/blockSize)
	w := walk{text: all}
	for i := range blocks {
		blocks[i] = w.hash((i + 1) * blockSize)
	}
	return engine.Request{ID: id, Blocks: blocks, Input: n, Output: p.answer.tokens}
}

// walk hashes ever longer beginnings of a text: equal hashes are equal
// beginnings.
type walk struct {
	text   []passage
	before uint64 // hash of the passages that are over
	start  int    // where the present one began
}

// hash returns the hash of the first n tokens. From call to call n must grow.
func (w *walk) hash(n int) uint64 {
	for n > w.start+w.text[0].tokens {
		w.before = scramble(w.before ^ scramble(w.text[0].id))
		w.start += w.text[0].tokens
		w.text = w.text[1:]
	}
	return scramble(w.before ^ scramble(w.text[0].id) + uint64(n-w.start))
}

func (p *prompt) pieces() (ids []uint64, tokens int) { return nil, 0 }

func (p *prompt) key() uint64 { return 0 }
