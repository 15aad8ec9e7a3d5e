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

// Block sizes in bytes of canonical prompt. Short blocks at the start tell
// short prompts apart; long ones after keep the index of a long prompt small.
const (
	ShortBlock   = 256
	LongBlock    = 1024
	shortBlocks  = 16
	shortRegion  = shortBlocks * ShortBlock // 4 KiB
	DefaultRatio = 4.0                      // bytes per token until usage teaches better
)

// BlockEnd returns how many bytes of canonical prompt the first n blocks cover.
func BlockEnd(n int) int {
	if n <= shortBlocks {
		return n * ShortBlock
	}
	return shortRegion + (n-shortBlocks)*LongBlock
}

// BlockCount returns how many full blocks a canonical prompt of the given
// length in bytes has.
func BlockCount(bytes int) int {
	if bytes <= shortRegion {
		return bytes / ShortBlock
	}
	return shortBlocks + (bytes-shortRegion)/LongBlock
}

// CoveredTokens returns how many prompt tokens the first n blocks hold, by the
// request's own ratio of tokens to bytes. Never more than InputTokens.
func (f *Features) CoveredTokens(n int) int {
	if n <= 0 || f.PromptBytes <= 0 {
		return 0
	}
	return min(f.InputTokens, int(float64(BlockEnd(n))/float64(f.PromptBytes)*float64(f.InputTokens)))
}
