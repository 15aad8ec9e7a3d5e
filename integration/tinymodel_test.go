package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The tiny model: a real llama in every respect but that it learned nothing. A
// server loads it in no time and answers in words of three letters.
const (
	tinyWidth   = 64
	tinyHeads   = 4
	tinyLayers  = 2
	tinyInner   = 128
	tinyContext = 8192
)

// tinyTemplate turns a conversation into a prompt.
const tinyTemplate = `{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}`

// tinyWords are the words it knows. With the space before it each is one token
// of four bytes, about as much as an English token has.
var tinyWords = func() []string {
	var words []string
	for _, first := range "bdfgklmnpt" {
		for _, second := range "aeiou" {
			for _, third := range "bdgmt" {
				words = append(words, string([]rune{first, second, third}))
			}
		}
	}
	return words
}()

// kinds of tokens, as the file numbers them
const (
	tokenNormal  = int32(1)
	tokenUnknown = int32(2)
	tokenControl = int32(3)
	tokenByte    = int32(6)
)

// tinyVocabulary lists the tokens, the kind of each, and where the words begin:
// they come last. All else is spelled in bytes.
func tinyVocabulary() (tokens []string, kinds []int32, words int) {
	add := func(token string, kind int32) {
		tokens, kinds = append(tokens, token), append(kinds, kind)
	}
	add("<unk>", tokenUnknown)
	add("<s>", tokenControl)
	add("</s>", tokenControl)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), tokenByte)
	}
	const space = "\u2581" // how this kind of vocabulary writes it
	add(space, tokenNormal)
	// Tokens grow letter by letter, so each beginning of a word is one too.
	known := map[string]bool{}
	for length := 1; length <= 3; length++ {
		if length == 3 {
			words = len(tokens)
		}
		for _, word := range tinyWords {
			if token := space + word[:length]; !known[token] {
				known[token] = true
				add(token, tokenNormal)
			}
		}
	}
	return tokens, kinds, words
}

// tinyModel makes the model, the same at every call.
func tinyModel() *gguf {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int, scale float64) []float32 {
		numbers := make([]float32, n)
		for i := range numbers {
			numbers[i] = float32(scale * random.NormFloat64())
		}
		return numbers
	}
	ones := make([]float32, tinyWidth)
	for i := range ones {
		ones[i] = 1
	}
	tokens, kinds, words := tinyVocabulary()
	scores := make([]float32, len(tokens))

	g := &gguf{facts: []fact{
		{"general.architecture", "llama"},
		{"general.name", "tiny"},
		{"llama.context_length", uint32(tinyContext)},
		{"llama.embedding_length", uint32(tinyWidth)},
		{"llama.block_count", uint32(tinyLayers)},
		{"llama.feed_forward_length", uint32(tinyInner)},
		{"llama.attention.head_count", uint32(tinyHeads)},
		{"llama.attention.head_count_kv", uint32(tinyHeads)},
		{"llama.attention.layer_norm_rms_epsilon", float32(1e-5)},
		{"llama.rope.dimension_count", uint32(tinyWidth / tinyHeads)},
		{"llama.vocab_size", uint32(len(tokens))},
		{"tokenizer.ggml.model", "llama"},
		{"tokenizer.ggml.tokens", tokens},
		{"tokenizer.ggml.scores", scores},
		{"tokenizer.ggml.token_type", kinds},
		{"tokenizer.ggml.unknown_token_id", uint32(0)},
		{"tokenizer.ggml.bos_token_id", uint32(1)},
		{"tokenizer.ggml.eos_token_id", uint32(2)},
		{"tokenizer.ggml.add_bos_token", true},
		{"tokenizer.chat_template", tinyTemplate},
	}}
	matrix := func(name string, columns, rows int) {
		g.tensors = append(g.tensors, tensor{name, []uint64{uint64(columns), uint64(rows)}, noise(columns*rows, 0.2)})
	}
	norm := func(name string) {
		g.tensors = append(g.tensors, tensor{name, []uint64{tinyWidth}, ones})
	}

	matrix("token_embd.weight", tinyWidth, len(tokens))
	norm("output_norm.weight")
	// Only words get a chance to be said, so that every answer is text and none
	// ends before its limit.
	spoken := noise(tinyWidth*len(tokens), 1)
	clear(spoken[:tinyWidth*words])
	g.tensors = append(g.tensors, tensor{"output.weight", []uint64{tinyWidth, uint64(len(tokens))}, spoken})
	for layer := range tinyLayers {
		block := fmt.Sprintf("blk.%d.", layer)
		norm(block + "attn_norm.weight")
		for _, part := range []string{"q", "k", "v", "output"} {
			matrix(block+"attn_"+part+".weight", tinyWidth, tinyWidth)
		}
		norm(block + "ffn_norm.weight")
		matrix(block+"ffn_gate.weight", tinyWidth, tinyInner)
		matrix(block+"ffn_up.weight", tinyWidth, tinyInner)
		matrix(block+"ffn_down.weight", tinyInner, tinyWidth)
	}
	return g
}

// speech is a text of n words that the tiny model knows; every seed has its own.
func speech(seed uint64, n int) string {
	random := rand.New(rand.NewPCG(seed, 0))
	said := make([]string, n)
	for i := range said {
		said[i] = tinyWords[random.IntN(len(tinyWords))]
	}
	return strings.Join(said, " ")
}
