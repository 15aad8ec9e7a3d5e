package request

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// vocabularyFile is the vocabulary that samples are counted in, o200k. Nobody's
// models have exactly this one; it is as large as theirs, so that it cuts scripts
// other than the Latin one as coarsely as they do.
const vocabularyFile = "o200k_base.tiktoken"

// vocabularyWords is how a text is cut before its pieces are looked up, which
// belongs to the vocabulary (OpenAI's tiktoken, tiktoken_ext/openai_public.py,
// o200k_base). The library knows it too, but not without keeping all for good.
var vocabularyWords = strings.Join([]string{
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?`,
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?`,
	`\p{N}{1,3}`,
	` ?[^\s\p{L}\p{N}]+[\r\n/]*`,
	`\s*[\r\n]+`,
	`\s+(?!\S)`,
	`\s+`,
}, "|")

// vocabularyIdle is how long the vocabulary stays when nothing is counted. It is
// 24 MB full of pointers, which every collection of garbage walks through: that
// made each request cost a fifth more than without. Where it was loaded for nothing,
// since requests come too rarely, it is not loaded again for vocabularyPause.
const (
	vocabularyIdle  = 5 * time.Second
	vocabularyPause = 5 * time.Minute
)

// vocabulary is the package's one state: the tokenizer, while it is there. It has
// nothing of any request in it.
var vocabulary struct {
	ready atomic.Pointer[tiktoken.Tiktoken]
	used  atomic.Bool // since it was last looked

	mu       sync.Mutex
	wanted   bool // it is there or being loaded
	hopeless bool // it cannot be loaded
	notUntil time.Time
}

// tokenCounter returns what counts a text's tokens, or nil while the vocabulary
// is not loaded. A call then begins to load it, in a goroutine that ends when it
// is there: it takes some tenths of a second, which no request should wait for.
// It is let go when nothing has been counted for [vocabularyIdle].
func tokenCounter() func(text string) int {
	if t := vocabulary.ready.Load(); t != nil {
		if !vocabulary.used.Load() {
			vocabulary.used.Store(true)
		}
		return counterOf(t)
	}
	vocabulary.mu.Lock()
	defer vocabulary.mu.Unlock()
	if !vocabulary.wanted && !vocabulary.hopeless && !time.Now().Before(vocabulary.notUntil) {
		vocabulary.wanted = true
		go loadVocabulary()
	}
	return nil
}

// loadVocabulary loads it, from what is compiled in. When it cannot be, there
// never is one: estimates are made without samples then.
func loadVocabulary() {
	t := newVocabulary()
	if t == nil {
		vocabulary.mu.Lock()
		vocabulary.hopeless = true
		vocabulary.mu.Unlock()
		return
	}
	vocabulary.used.Store(false)
	vocabulary.ready.Store(t)
	time.AfterFunc(vocabularyIdle, func() { freeVocabulary(t, true) })
}

// freeVocabulary lets it go if nobody has used it since it was last looked; fresh is
// for the first time.
func freeVocabulary(t *tiktoken.Tiktoken, fresh bool) {
	if vocabulary.used.Swap(false) {
		time.AfterFunc(vocabularyIdle, func() { freeVocabulary(t, false) })
		return
	}
	vocabulary.mu.Lock()
	defer vocabulary.mu.Unlock()
	if vocabulary.ready.CompareAndSwap(t, nil) {
		vocabulary.wanted = false
		if fresh {
			vocabulary.notUntil = time.Now().Add(vocabularyPause)
		}
	}
}

// newVocabulary builds a tokenizer that belongs to nobody but the caller, nil if
// it cannot be. What the library builds by name it keeps for the whole process.
func newVocabulary() (t *tiktoken.Tiktoken) {
	defer func() { _ = recover() }()
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(vocabularyFile)
	if err != nil {
		return nil
	}
	bpe, err := tiktoken.NewCoreBPE(ranks, nil, vocabularyWords)
	if err != nil {
		return nil
	}
	return tiktoken.NewTiktoken(bpe, nil, nil)
}

// counterOf counts with t. What makes the library panic has no tokens: a client
// decides what it gets to read.
func counterOf(t *tiktoken.Tiktoken) func(text string) int {
	return func(text string) (tokens int) {
		defer func() {
			if recover() != nil {
				tokens = 0
			}
		}()
		return len(t.EncodeOrdinary(text))
	}
}
