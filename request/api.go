package request

import (
	"math"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The dialects a body is read as.
const (
	Chat        = "chat"        // OpenAI chat completions
	Completions = "completions" // OpenAI completions
)

// The dialects whose prompt is not read. Their bodies are opaque, and tell no
// more than the model, whether the answer streams, and how long it may get.
const (
	Responses      = "responses"       // OpenAI responses
	Messages       = "messages"        // Anthropic messages
	OllamaChat     = "ollama_chat"     // Ollama's own chat
	OllamaGenerate = "ollama_generate" // Ollama's own completion
	Generate       = "generate"        // TGI and SGLang
	GenerateStream = "generate_stream" // TGI, always a stream
	Completion     = "completion"      // llama.cpp's own completion
	Root           = "root"            // TGI at "/": a stream if asked for
)

const (
	// defaultMaxDepth is far over any real request and under the limit of
	// every engine's own parser.
	defaultMaxDepth = 256
	maxMaxDepth     = 1024

	// keyBytes is how much of a text or of an opaque body decides where it
	// goes; of token ids it is the first 1,024.
	keyBytes = 4096
)

// Options are what reading depends on besides the body; they are constant for a
// settings generation. The zero value is usable.
type Options struct {
	// Seed keys Features.Blocks. Random per process, so that nobody outside
	// can aim two prompts at one hash.
	Seed uint64

	// AffinityKey keys Features.Key. The same on all gateways of a pool.
	AffinityKey uint64

	// Session names the conversation by other means than the body: see
	// [SessionOf]. It becomes the whole of Features.Key, unless the body has a
	// prompt_cache_key, which is more precise.
	Session string

	// AllowFields names those of [SteeringFields] that clients may send.
	// Default: none. Other names in it have no effect.
	AllowFields map[string]bool

	// MaxDepth bounds how deep objects and arrays may nest, the outermost one
	// included. Default: 256. More than 1,024 is taken as 1,024.
	MaxDepth int
}

// APIOf tells which dialect the body of a POST to a cleaned URL path is in, or
// "" when the path has none that we know. Engines serve the chat path with and
// without the version; a bare /completions is llama.cpp's own dialect. Of which
// engine a dialect is that several speak, only the answer tells.
func APIOf(path string) string {
	switch path {
	case "/v1/chat/completions", "/chat/completions":
		return Chat
	case "/v1/completions":
		return Completions
	case "/v1/responses":
		return Responses
	case "/v1/messages":
		return Messages
	case "/api/chat":
		return OllamaChat
	case "/api/generate":
		return OllamaGenerate
	case "/generate":
		return Generate
	case "/generate_stream":
		return GenerateStream
	case "/completion", "/completions":
		return Completion
	case "/":
		return Root
	}
	return ""
}

// StreamsSSE reports whether a streamed answer in the dialect is made of
// server-sent events. Ollama's own are lines of JSON; of "" nothing is known.
func StreamsSSE(api string) bool {
	return api != "" && api != OllamaChat && api != OllamaGenerate
}

// readsPrompt reports whether bodies in the dialect are understood.
func readsPrompt(api string) bool { return api == Chat || api == Completions }

// Read reads a body in the dialect that [APIOf] named. It neither keeps nor
// changes the body, never panics, and gives equal answers for equal input.
//
// A body that is no JSON object, is broken, has something behind its end, or
// comes in a dialect whose prompt is not read is opaque: Features then hold API,
// Opaque, a Key made of the first 4 KiB and InputTokens guessed from the size. A
// whole object in a dialect that has a name fills Model, Stream and
// MaxOutputTokens besides; where it says nothing, and where the body is broken,
// Stream is what the dialect does by itself. A value of the wrong type is not
// opaque; it counts as absent, since the engine answers for it: a "model" that
// is no string gives Model "".
//
// The error is nil or a *[Refusal]. What is refused: an interpreted field that
// appears twice however spelled (in unread dialects too), a "model" in another letter case, a steering
// field that is not allowed, nesting over MaxDepth, and UTF-16 or UTF-32. A
// refusal takes precedence over opacity for all that stands before the break.
func Read(api string, body []byte, o *Options) (llmlb.Features, error) {
	if o == nil {
		o = new(Options)
	}
	var r reading
	whole, refusal := r.top(api, body, o)
	if refusal != nil {
		return llmlb.Features{}, refusal
	}
	if !whole || !readsPrompt(api) {
		f := opaque(api, body, o)
		r.native(&f, whole)
		f.Broken = api != "" && !whole
		return f, nil
	}

	f := llmlb.Features{API: api}
	r.simple(&f)

	var c canon
	c.start(o, r.promptLength(api))
	r.seed(&c, f.Model, o.Session)
	sequences := 1
	if api == Chat {
		r.chat(&c)
	} else {
		_, sequences = r.completions(&c)
	}
	c.closeKey()

	f.MaxOutputTokens = product(f.MaxOutputTokens, sequences)
	f.InputTokens = max(1, c.ids+textTokens(c.bytes()-4*c.ids))
	f.PromptBytes, f.TokenIDs = c.bytes(), c.ids
	if len(c.blocks) > 0 {
		f.Blocks = c.blocks
	}
	f.Key = c.key
	return f, nil
}

func opaque(api string, body []byte, o *Options) llmlb.Features {
	head := body[:min(len(body), keyBytes)]
	if o.Session != "" {
		head = []byte(o.Session)
	}
	return llmlb.Features{
		API:         api,
		Opaque:      true,
		InputTokens: max(1, textTokens(len(body))),
		Key:         xxh3.HashSeed(head, o.AffinityKey),
	}
}

func textTokens(bytes int) int {
	return int(math.Ceil(float64(bytes) / llmlb.DefaultRatio))
}

// product multiplies counts and stops at maxCount.
func product(a, b int) int {
	return int(min(uint64(a)*uint64(b), maxCount))
}
