package llmlb

// Features is what reading a request tells about it: all that the choice of an
// endpoint needs, and nothing of the prompt's text. Package request fills it.
type Features struct {
	// API names the dialect of the request, as package request does; "" where
	// its path is none that generates, or none that is known.
	API string

	// Opaque says that the body was not understood. The engine answers for
	// it; we route it by Key alone and guess its cost from its size.
	Opaque bool

	// Broken says that it is not what its dialect asks for: no whole JSON
	// object. Whatever the engine answers to it is the client's doing.
	Broken bool

	// Model is the value of the body's "model", unescaped. Empty when absent.
	Model string

	// Stream says that the client asked for the answer in pieces: server-sent
	// events, or lines of JSON in Ollama's dialects.
	Stream bool

	// StreamUsage says that the client asked for usage in the stream
	// (stream_options.include_usage), so a usage chunk is expected by it.
	StreamUsage bool

	// InputTokens is the length of the prompt in tokens: exact for token-id
	// prompts, otherwise an estimate. At least 1 for a request that generates.
	InputTokens int

	// Ratio is how many bytes of this prompt make a token, by a sample of it in a
	// vocabulary that is like most. 0 when there was no text to sample, or no
	// vocabulary yet.
	Ratio float64

	// Encodes says that the answer is computed from the prompt alone and no token
	// is generated: embeddings, ranks, scores.
	Encodes bool

	// TokenIDs is how many tokens of the prompt came as ids: those are counted,
	// the rest is estimated.
	TokenIDs int

	// MaxOutputTokens is the client's ceiling on generated tokens, already
	// multiplied by the number of choices. 0 when the client set none.
	MaxOutputTokens int

	// PromptBytes is the length of the canonical prompt in bytes: four bytes
	// a token for token-id prompts.
	PromptBytes int

	// Blocks are the chained hashes of the canonical prompt's full blocks, in
	// order. The hash of block i covers everything before it and the model;
	// BlockEnd tells how many bytes the first n blocks cover. The hashes are
	// keyed per process and mean nothing outside it.
	Blocks []uint64

	// Key is the conversation key for rendezvous hashing: equal for all turns
	// of one conversation, and equal on every gateway with the same
	// affinity_key.
	Key uint64
}

// DefaultRatio is how many bytes make a token until usage teaches better.
const DefaultRatio = 4.0

// Blocks are short at the start, to tell short prompts apart, and longer the further
// in they are: how much of a prompt is found counts as a part of it, and each block
// of a long one costs its hash and three lines of memory in the index. None that
// begins behind the first 4 KiB is more than a quarter of what stands before it, nor
// any behind 32 KiB more than a sixteenth.
const (
	ShortBlock = 256
	LongBlock  = 4096 // none is longer
)

// regions are the parts of a prompt that are cut alike, the last one without an end.
var regions = [...]struct{ block, bytes int }{
	{ShortBlock, 4 << 10},
	{1 << 10, 28 << 10},
	{2 << 10, 96 << 10},
	{LongBlock, 1 << 62},
}

// BlockEnd returns how many bytes of canonical prompt the first n blocks cover.
func BlockEnd(n int) (end int) {
	for _, r := range regions {
		blocks := r.bytes / r.block
		if n <= blocks {
			return end + n*r.block
		}
		n -= blocks
		end += r.bytes
	}
	return end
}

// BlockCount returns how many full blocks a canonical prompt of the given
// length in bytes has.
func BlockCount(bytes int) (n int) {
	for _, r := range regions {
		if bytes <= r.bytes {
			return n + bytes/r.block
		}
		n += r.bytes / r.block
		bytes -= r.bytes
	}
	return n
}

// CoveredTokens returns how many prompt tokens the first n blocks hold, by the
// request's own ratio of tokens to bytes. Never more than InputTokens.
func (f *Features) CoveredTokens(n int) int {
	if n <= 0 || f.PromptBytes <= 0 {
		return 0
	}
	return min(f.InputTokens, int(float64(BlockEnd(n))/float64(f.PromptBytes)*float64(f.InputTokens)))
}
