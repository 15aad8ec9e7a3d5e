package selection

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A choice over a pool in which everything has load and a list of models, and the
// prompt, of 32 KB, is warm on a few endpoints. Weighted is with all scorers.
func BenchmarkGrant(b *testing.B) {
	for _, n := range []int{2, 64, 1000} {
		for _, kind := range []string{"warm", "cold", "weighted"} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				w := newWorld(b, addresses(n)...)
				indexOf(w.pool).resize(DefaultIndexBytes)
				for i, m := range w.settings.Members {
					w.scrape(m.Address, float64(i%17), float64(i%3), float64(i%90)/100)
					w.models(m.Address, llmlb.Model{ID: "base"}, llmlb.Model{ID: "adapter", Parent: "base"})
				}
				if kind == "weighted" {
					w.settings.Strategy, w.settings.Scorers = StrategyWeighted, allScorers()
				}
				p := prompt(part{"32 KB of prompt", 8192})
				p.Model = "base"
				ix := indexOf(w.pool)
				ix.learn([]uint64{1}, 1, llmlb.Unknown, w.now, true)
				clear(ix.table.sets) // have the memory, as a gateway that runs has
				for i := range min(n, 3) {
					ix.learn(p.Blocks, w.settings.Members[i].Endpoint.CacheID(), llmlb.Unknown, w.now, true)
				}
				if kind == "cold" {
					p = prompt(part{"32 KB of another prompt", 8192})
					p.Model = "base"
				}
				b.ReportAllocs()
				for b.Loop() {
					c := llmlb.NewCall(w.pool, w.settings, w.now)
					c.Features = p
					if Grant(c, w.now) != Granted {
						b.Fatal("not granted")
					}
					c.EndAttempt(w.now, llmlb.Served)
					if kind == "cold" { // the next prompt: some 100 ns
						for i := range p.Blocks {
							p.Blocks[i] = mix(p.Blocks[i])
						}
						p.Key = mix(p.Key)
					}
				}
			})
		}
	}
}

// One prompt of 32 KB, in an index that is full.
func BenchmarkIndex(b *testing.B) {
	now := time.Unix(1_800_000_000, 0)
	full := func() *index {
		ix := indexWith(DefaultIndexBytes)
		for i := range 50_000 {
			ix.learn(chainOf(uint64(i), 44), uint32(i%64+1), llmlb.Unknown, now, true)
		}
		return ix
	}
	b.Run("lookup", func(b *testing.B) {
		ix := full()
		var dst [holdersMax]holder
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			ix.lookup(chains[i%len(chains)], now, dst[:0])
		}
	})
	b.Run("insert", func(b *testing.B) {
		ix := full()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			ix.learn(chains[i%len(chains)], 7, llmlb.Unknown, now, true)
		}
	})
	b.Run("insert with a room", func(b *testing.B) { // whose size is known: two thirds of what comes
		ix, now := full(), now
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			now = now.Add(50 * time.Millisecond)
			ix.learn(chains[i%len(chains)], 7, 88<<20, now, true)
		}
	})
	for _, n := range []int{4, 16, 64, 200} { // endpoints that all hold one prompt
		hot := func() *index {
			ix := full()
			for cache := range n {
				ix.learn(chains[0], uint32(1000+cache), llmlb.Unknown, now, true)
			}
			return ix
		}
		b.Run(fmt.Sprint("lookup hot/", n), func(b *testing.B) {
			ix := hot()
			var dst [holdersMax]holder
			b.ReportAllocs()
			for b.Loop() {
				ix.lookup(chains[0], now, dst[:0])
			}
		})
		b.Run(fmt.Sprint("insert hot/", n), func(b *testing.B) {
			ix := hot()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ix.learn(chains[0], uint32(1000+i%n), llmlb.Unknown, now, true)
			}
		})
	}
}

// chains are prompts that the full index holds for the most part.
var chains = func() [][]uint64 {
	var list [][]uint64
	for i := range 4096 {
		list = append(list, chainOf(uint64(45_000+i), 44))
	}
	return list
}()

// The choice runs for every call under the pool's lock: what it allocates must
// not grow with the pool. A Lease, a closure for the first token.
func TestGrantAllocatesNothingThatGrows(t *testing.T) {
	if raceDetector {
		t.Skip("allocations cannot be counted under the race detector")
	}
	for _, n := range []int{2, 64, 1000} {
		w := newWorld(t, addresses(n)...)
		w.scrapeAll(3, 1, 0.4)
		p := prompt(part{"32 KB of prompt", 8192})
		w.serve(p)
		c := w.call(p)
		got := testing.AllocsPerRun(50, func() {
			if Grant(c, w.now) != Granted {
				t.Fatal("not granted")
			}
			c.EndAttempt(w.now, llmlb.Served)
		})
		if got > 3 {
			t.Errorf("%d endpoints: %v allocations, want 3 at most", n, got)
		}
	}
}

// allScorers are those of this build, each with weight 1.
func allScorers() []llmlb.WeightedScorer {
	return []llmlb.WeightedScorer{
		{Name: "queue", Weight: 1, Scorer: new(Queue)},
		{Name: "kv_memory", Weight: 1, Scorer: new(KVMemory)},
		{Name: "prefix", Weight: 1, Scorer: new(Prefix)},
		{Name: "token_budget", Weight: 1, Scorer: new(TokenBudget)},
		{Name: "errors", Weight: 1, Scorer: new(Errors)},
		{Name: "latency", Weight: 1, Scorer: new(Latency)},
		{Name: "session", Weight: 1, Scorer: new(Session)},
	}
}
