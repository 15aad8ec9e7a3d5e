package virtual

import (
	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// content is what a request says: what a gateway reads of it, and what it is to an
// engine.
type content interface {
	features() llmlb.Features
	request(id uint64, blockSize int) engine.Request
	pieces() (ids []uint64, tokens int) // chained ids, of so many tokens each
	key() uint64                        // of its conversation, 0 where nothing tells
}

const (
	model = "sim"

	// bytesPerToken is how long a token of the texts is that there would be.
	bytesPerToken = 4

	// keyTokens is how much of a row's prompt tells its conversation apart where the
	// trace does not: two pieces of the traces that have them of 512 tokens.
	keyTokens = 1024
)

// row is the content of a trace's request.
type row struct {
	*trace.Request
	block int
}

func (r row) pieces() (ids []uint64, tokens int) { return r.Blocks, r.block }

// features is what the request's reader would make of the prompt.
func (r row) features() llmlb.Features {
	n := r.Input * bytesPerToken
	f := llmlb.Features{API: "chat", Model: model, Stream: true, InputTokens: r.Input, PromptBytes: n}
	if len(r.Blocks) == 0 || r.block == 0 {
		return f
	}
	f.Blocks = make([]uint64, llmlb.BlockCount(min(n, len(r.Blocks)*r.block*bytesPerToken)))
	for i := range f.Blocks {
		f.Blocks[i] = r.upTo(llmlb.BlockEnd(i+1) / bytesPerToken)
	}
	f.Key = scramble(r.key() ^ keySalt)
	return f
}

func (r row) key() uint64 {
	switch {
	case r.Conversation != 0:
		return r.Conversation
	case r.block == 0 || len(r.Blocks) == 0:
		return 0
	}
	return r.Blocks[min(len(r.Blocks), (r.Input+r.block-1)/r.block, max(1, keyTokens/r.block))-1]
}

// keySalt keeps a conversation's key from being one of its blocks' hashes.
const keySalt = 0x5e5510f

// upTo is the hash of the first n tokens, of which the last are in a piece that
// the row names.
func (r row) upTo(n int) uint64 {
	piece := (n - 1) / r.block
	return scramble(r.Blocks[piece] + scramble(uint64(n-piece*r.block)))
}

// request is what the engine is given. What the row's last piece leaves open is
// like nothing else.
func (r row) request(id uint64, blockSize int) engine.Request {
	req := engine.Request{ID: id, Input: r.Input, Output: r.Output}
	if r.block == 0 {
		return req
	}
	tokens := min(r.Input+r.Output, len(r.Blocks)*r.block)
	if len(r.Blocks)*r.block < r.Input+r.block { // they do not go on into the answer
		tokens = min(tokens, r.Input)
	}
	req.Blocks = make([]uint64, tokens/blockSize)
	if r.block == blockSize {
		copy(req.Blocks, r.Blocks)
		return req
	}
	for i := range req.Blocks {
		req.Blocks[i] = r.upTo((i + 1) * blockSize)
	}
	return req
}

// scramble is the finaliser of splitmix64.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
