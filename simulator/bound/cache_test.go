package bound

import (
	"math/rand/v2"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

func TestHitRatiosAreInOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	apart := 0
	for range 300 {
		tr := randomTrace(rnd, 1+rnd.IntN(60), 16, rnd.IntN(2) == 0)
		all := Hits(tr)
		var lru, best float64
		for tokens := 0; tokens < 3000; tokens += 1 + rnd.IntN(200) {
			l, b := PooledLRU(tr, tokens), Belady(tr, tokens)
			if l > b+1e-12 || b > all+1e-12 {
				t.Fatalf("with %d tokens LRU finds %v, MIN %v, an infinite cache %v; want no less each", tokens, l, b, all)
			}
			if l < lru || b < best {
				t.Fatalf("with %d tokens LRU finds %v and MIN %v, less than with fewer: %v and %v", tokens, l, b, lru, best)
			}
			if l < b && b < all {
				apart++
			}
			lru, best = l, b
		}
		if b := Belady(tr, 1<<30); b < all-1e-12 {
			t.Fatalf("MIN without limit finds %v, want all that occurred before, %v", b, all)
		}
		if PooledLRU(tr, 0) != 0 || Belady(tr, 0) != 0 {
			t.Fatal("a cache of no tokens finds some")
		}
	}
	if apart < 300 {
		t.Errorf("in %d cases only the three differed; the traces test nothing", apart)
	}
}

// An engine that is given one request after the other is that very LRU.
func TestPooledLRUIsTheEngine(t *testing.T) {
	const size = 16
	rnd := rand.New(rand.NewPCG(2, 1))
	for range 100 {
		tr := randomTrace(rnd, 80, size, false)
		for i := range tr.Requests {
			// Whole blocks, and no answer in memory.
			r := &tr.Requests[i]
			r.Input = (r.Input + size - 1) / size * size
			r.Blocks, r.Output = r.Blocks[:r.Input/size], 1
		}
		c := preset(t, "8b-h100")
		c.BlockSize, c.KVTokens = size, size*(6+rnd.IntN(40))
		e, err := engine.New(c)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range tr.Requests {
			if err := e.Add(0, engine.Request{ID: uint64(i), Input: r.Input, Output: 1, Blocks: engineBlocks(tr, &r, size)}); err != nil {
				t.Fatal(err)
			}
			for _, ok := e.Begin(0); ok; _, ok = e.Begin(0) {
				e.End(nil)
			}
		}
		want := share(tr, int(e.Stats().HitTokens))
		if got := PooledLRU(tr, c.KVTokens); got != want {
			t.Fatalf("with %d tokens: hit ratio of %v; the engine has %v", c.KVTokens, got, want)
		}
	}
}

// A known answer stays in memory and pushes others out; one of which the trace has no
// ids does not.
func TestPooledLRUKeepsKnownAnswers(t *testing.T) {
	asked := trace.Request{Input: 10, Output: 1, Blocks: []uint64{1}}
	for _, test := range []struct {
		name   string
		answer []uint64
		want   float64
	}{
		{"unknown answer", []uint64{2}, 9. / 30},
		{"known answer", []uint64{2, 3}, 0},
	} {
		tr := &trace.Trace{Block: 10, Requests: []trace.Request{asked, {Input: 10, Output: 10, Blocks: test.answer}, asked}}
		if got := PooledLRU(tr, 20); got != test.want {
			t.Errorf("%s: hit ratio of %v, want %v", test.name, got, test.want)
		}
	}
}

// No choice of what to keep after each request finds more.
func TestBeladyIsTheBestChoice(t *testing.T) {
	const kinds = 6
	rnd := rand.New(rand.NewPCG(3, 1))
	for range 300 {
		// One token a piece, and a last token that is never found.
		tr := &trace.Trace{Block: 1}
		var sets []int
		for range 9 {
			r := trace.Request{Output: 1}
			set := 0
			for id := range kinds {
				if rnd.IntN(3) == 0 {
					r.Blocks = append(r.Blocks, uint64(id))
					set |= 1 << id
				}
			}
			r.Input = len(r.Blocks) + 1
			tr.Requests = append(tr.Requests, r)
			sets = append(sets, set)
		}
		tokens := rnd.IntN(kinds)
		want := share(tr, bestChoice(sets, tokens, kinds))
		if got := Belady(tr, tokens); got != want {
			t.Fatalf("MIN of %d tokens finds %v, want %v\n%b", tokens, got, want, sets)
		}
	}
}

// bestChoice tries every cache content after every request.
func bestChoice(sets []int, tokens, kinds int) int {
	const impossible = -1 << 30
	best := make([]int, 1<<kinds)
	for s := range best {
		best[s] = impossible
	}
	best[0] = 0
	for _, asked := range sets {
		after := make([]int, 1<<kinds)
		for s := range after {
			after[s] = impossible
			if ones(s) > tokens {
				continue
			}
			for before, hits := range best {
				if s&^(before|asked) == 0 {
					after[s] = max(after[s], hits+ones(before&asked))
				}
			}
		}
		best = after
	}
	top := 0
	for _, hits := range best {
		top = max(top, hits)
	}
	return top
}

func ones(s int) int {
	n := 0
	for ; s > 0; s &= s - 1 {
		n++
	}
	return n
}
