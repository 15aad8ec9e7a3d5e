package request

import (
	"sync"
	"sync/atomic"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// vocabularyName is the vocabulary that samples are counted in. Nobody's models
// have exactly this one; it is as large as theirs, so that it cuts scripts other
// than the Latin one as coarsely as they do.
const vocabularyName = tiktoken.MODEL_O200K_BASE

// vocabulary is the package's one state: the tokenizer, once it is there. It has
// nothing of any request in it.
var vocabulary struct {
	once  sync.Once
	ready atomic.Pointer[tiktoken.Tiktoken]
}

// tokenCounter returns what counts a text's tokens, or nil while the vocabulary
// is not loaded. The first call begins to load it, in a goroutine that ends when
// it is there: it takes some tenths of a second and 24 MB that stay, which a
// gateway that never needs it should not pay for, nor its first request wait for.
func tokenCounter() func(text string) int {
	if t := vocabulary.ready.Load(); t != nil {
		return counterOf(t)
	}
	vocabulary.once.Do(func() { go loadVocabulary() })
	return nil
}

// loadVocabulary loads it, from what is compiled in. When it cannot be, there
// never is one: estimates are made without samples then.
func loadVocabulary() {
	defer func() { _ = recover() }()
	// The library's default would fetch the vocabulary from the internet. Its
	// loader is one for the whole process: whoever else uses it gets the same
	// vocabularies from the same place.
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	if t, err := tiktoken.GetEncoding(vocabularyName); err == nil {
		vocabulary.ready.Store(t)
	}
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
