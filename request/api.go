package request

import (
	"math"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The dialects whose answers are generated.
const (
	Chat           = "chat"            // OpenAI chat completions
	Completions    = "completions"     // OpenAI completions
	Responses      = "responses"       // OpenAI responses
	Messages       = "messages"        // Anthropic messages
	OllamaChat     = "ollama_chat"     // Ollama's own chat
	OllamaGenerate = "ollama_generate" // Ollama's own completion
	Generate       = "generate"        // TGI and SGLang
	GenerateStream = "generate_stream" // TGI, always a stream
	Completion     = "completion"      // llama.cpp's own completion
	Root           = "root"            // TGI at "/": a stream if asked for
)

// The dialects whose answers are computed from the prompt alone: see [Encodes].
const (
	Embeddings = "embeddings"
	Pooling    = "pooling"
	Classify   = "classify"
	Rerank     = "rerank"
	Score      = "score"
)

// The dialects whose bodies are opaque, being forms with files in them. A body
// of JSON, which the second takes too, tells its model and whether it streams.
const (
	Transcription = "transcription" // audio to text, translated or not
	Image         = "image"         // text and pictures to pictures
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

	// Sample, when set, is asked whether bytes per token are to be counted in a
	// sample of a prompt for the model, which takes some tenths of a millisecond:
	// see [llmlb.Pool.NeedsSample]. Nil: never. The vocabulary begins to load with
	// the first request that needs it; Features.Ratio is 0 until it is there, the
	// one thing that makes two readings of a body differ.
	Sample func(model string) bool

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
	case "/v1/embeddings":
		return Embeddings
	case "/pooling":
		return Pooling
	case "/classify":
		return Classify
	case "/rerank", "/v1/rerank", "/v2/rerank":
		return Rerank
	case "/score", "/v1/score":
		return Score
	case "/v1/audio/transcriptions", "/v1/audio/translations":
		return Transcription
	case "/v1/images/generations", "/v1/images/edits":
		return Image
	}
	return ""
}

// Encodes reports whether nothing is generated for a request in the dialect.
func Encodes(api string) bool {
	switch api {
	case Embeddings, Pooling, Classify, Rerank, Score:
		return true
	}
	return false
}

// StreamsSSE reports whether a streamed answer in the dialect is made of
// server-sent events. Ollama's own are lines of JSON, what encodes has none, and
// of "" nothing is known.
func StreamsSSE(api string) bool {
	return api != "" && api != OllamaChat && api != OllamaGenerate && !Encodes(api)
}

// takesForms reports whether a body in the dialect need not be JSON.
func takesForms(api string) bool { return api == Transcription || api == Image }

// Read reads a body in the dialect that [APIOf] named. It neither keeps nor
// changes the body, never panics, and gives equal answers for equal input.
//
// A body that is no JSON object, is broken, has something behind its end, or
// comes in a dialect that is not read is opaque: Features then hold API, Opaque,
// Encodes, a Key made of the first 4 KiB and InputTokens guessed from the size.
// Stream is then what the dialect does by itself. The same guesses are made for
// a whole body without a prompt in it. A value of the wrong type is not opaque;
// it counts as absent, since the engine answers for it: a "model" that is no
// string gives Model "".
//
// The error is nil or a *[Refusal]. What is refused, in every dialect: an
// interpreted field that appears twice however spelled, a "model" in another
// letter case, a steering field that is not allowed, nesting over MaxDepth, and
// UTF-16 or UTF-32. A refusal takes precedence over opacity for all that stands
// before the break.
func Read(api string, body []byte, o *Options) (llmlb.Features, error) {
	if o == nil {
		o = new(Options)
	}
	var r reading
	whole, refusal := r.top(api, body, o)
	if refusal != nil {
		return llmlb.Features{}, refusal
	}
	if !whole || api == "" || takesForms(api) {
		return r.opaque(api, whole, o), nil
	}

	f := llmlb.Features{
		API: api, Model: modelName(r.b, r.at[fieldModel]), Encodes: Encodes(api),
		Stream: r.streams(api), StreamUsage: r.streamUsage(),
	}
	var c canon
	c.start(o, r.promptLength())
	c.sampleFor(o, f.Model)
	r.seed(&c, f.Model, o.Session)
	sequences := r.prompt(api, &c)
	named := !c.keyOpen && c.bytes() == 0
	c.closeKey()

	f.MaxOutputTokens = product(r.limit(api), sequences)
	f.InputTokens = max(1, c.ids+textTokens(c.bytes()-4*c.ids))
	f.PromptBytes, f.TokenIDs, f.Ratio = c.bytes(), c.ids, c.ratio()
	if len(c.blocks) > 0 {
		f.Blocks = c.blocks
	}
	f.Key = c.key
	if f.PromptBytes == 0 {
		// Whatever the engine makes of it, it is in there somewhere.
		f.InputTokens = max(1, textTokens(len(body)))
		if !named {
			f.Key = headKey(body, o)
		}
	}
	return f, nil
}

// prompt writes the canonical prompt of a body in the dialect and tells how many
// answers there will be at least: one for each of its prompts.
func (r *reading) prompt(api string, c *canon) (sequences int) {
	sequences = 1
	switch api {
	case Chat:
		r.chat(c)
	case Completions, Completion:
		_, sequences = r.completions(c)
	case Responses:
		r.responses(c)
	case Messages:
		r.messages(c)
	case OllamaChat:
		r.ollamaChat(c)
	case OllamaGenerate:
		r.ollamaGenerate(c)
	case Generate, GenerateStream, Root:
		sequences = r.generate(c)
	case Embeddings, Pooling, Classify:
		r.embeddings(c)
	case Rerank, Score:
		r.rank(c)
	}
	return sequences
}

// formRatio is how many bytes of a form stand for a token. Sound has 50 tokens a
// second where it is recognized; that is 320 bytes each as common files compress
// it, 640 as they do not.
const formRatio = 512

// opaque are the features of a body that is not read.
func (r *reading) opaque(api string, whole bool, o *Options) llmlb.Features {
	f := llmlb.Features{
		API: api, Opaque: true, Encodes: Encodes(api),
		InputTokens: max(1, textTokens(len(r.b))), Key: headKey(r.b, o),
	}
	switch {
	case api == "":
	case whole:
		f.Model, f.Stream = modelName(r.b, r.at[fieldModel]), r.streams(api)
	case takesForms(api):
		f.InputTokens = max(1, len(r.b)/formRatio)
	default:
		f.Broken = true
		r.at[fieldStream] = span{} // what stood before the break is not to be relied on
		f.Stream = r.streams(api)
	}
	return f
}

// headKey is the conversation key of a body without a prompt that we can see.
func headKey(body []byte, o *Options) uint64 {
	head := body[:min(len(body), keyBytes)]
	if o.Session != "" {
		head = []byte(o.Session)
	}
	return xxh3.HashSeed(head, o.AffinityKey)
}

func textTokens(bytes int) int {
	return int(math.Ceil(float64(bytes) / llmlb.DefaultRatio))
}

// product multiplies counts and stops at maxCount.
func product(a, b int) int {
	return int(min(uint64(a)*uint64(b), maxCount))
}
