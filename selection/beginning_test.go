package selection

import (
	"fmt"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A short answer that begins just before a long prompt is computed would be held up
// from its first token on. So the long prompt goes where as many requests are open,
// whose answers are being written already.
func TestALongPromptDoesNotGoRightBehindShortOnes(t *testing.T) {
	begins, writes := "10.4.0.1:8000", "10.4.0.2:8000"
	for seed := range 20 { // some are at home at one, some at the other
		w := newWorld(t, begins, writes)
		w.teach(10_000, 10_000)
		w.scrapeAll(0, 0, 0.1)
		w.scrapeAll(0, 0, 0.1)
		w.occupy(writes, 6)
		w.pool.Lock()
		for range 6 {
			w.pool.Reserve(w.endpoint(begins), w.now, llmlb.Work{Uncached: 1, Output: 1})
		}
		w.pool.Unlock()
		if c := w.grant(prompt(part{fmt.Sprint("long ", seed), 20_000})); where(c) != writes {
			t.Errorf("seed %d: the long prompt goes right behind six short ones", seed)
		}
	}
}
