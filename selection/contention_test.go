package selection

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// among has sixteen goroutines do the same at once, whatever the machine has.
func among(b *testing.B, f func(worker, i int)) {
	b.SetParallelism(max(1, 16/runtime.GOMAXPROCS(0)))
	b.ReportAllocs()
	b.ResetTimer()
	var workers atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		worker := int(workers.Add(1))
		for i := 0; pb.Next(); i++ {
			f(worker, i)
		}
	})
}

// The whole choice, with all that happens to a Call: it is placed, gets its first
// token, and ends. One goroutine is what it costs, sixteen what waiting adds.
func BenchmarkContention(b *testing.B) {
	for _, n := range []int{64, 1000} {
		w := newWorld(b, addresses(n)...)
		indexOf(w.pool).resize(DefaultIndexBytes)
		w.scrapeAll(3, 1, 0.4)
		prompts := make([]llmlb.Features, 256)
		for i := range prompts {
			prompts[i] = prompt(part{fmt.Sprint("prompt ", i), 8192})
		}
		call := func(worker, i int) {
			c := llmlb.NewCall(w.pool, w.settings, w.now)
			c.Features = prompts[(worker*31+i)%len(prompts)]
			if Grant(c, w.now) != Granted {
				b.Error("not granted")
			}
			c.SawFirstToken(w.now.Add(time.Second))
			c.EndAttempt(w.now.Add(time.Second), llmlb.Served)
		}
		b.Run(fmt.Sprintf("choice/endpoints=%d/alone", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				call(0, i)
			}
		})
		b.Run(fmt.Sprintf("choice/endpoints=%d/sixteen", n), func(b *testing.B) { among(b, call) })
	}
	ix, now := indexWith(DefaultIndexBytes), time.Unix(1_800_000_000, 0)
	index := func(worker, i int) {
		var dst [holdersMax]holder
		blocks := chains[(worker*257+i)%len(chains)]
		ix.lookup(blocks, now, dst[:0])
		ix.learn(blocks, uint32(worker), llmlb.Unknown, now, true)
	}
	b.Run("index/alone", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			index(1, i)
		}
	})
	b.Run("index/sixteen", func(b *testing.B) { among(b, index) })

	w := newWorld(b, addresses(64)...)
	ledger := func(worker, i int) {
		e := w.settings.Members[(worker*7+i)%64].Endpoint
		w.pool.Lock()
		l := w.pool.Reserve(e, w.now, llmlb.Work{Uncached: 100, Output: 10})
		w.pool.Unlock()
		l.FirstToken()
		l.End(w.now)
	}
	b.Run("ledger/alone", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			ledger(1, i)
		}
	})
	b.Run("ledger/sixteen", func(b *testing.B) { among(b, ledger) })
}

// What a Call costs from the choice to its end does not grow with the pool: the Call
// itself, its Lease, and what teaches and corrects the index.
func TestACallAllocatesFourTimes(t *testing.T) {
	if raceDetector {
		t.Skip("allocations cannot be counted under the race detector")
	}
	for _, strategy := range Strategies() {
		for _, n := range []int{2, 64, 1000} {
			w := newWorld(t, addresses(n)...)
			w.settings.Strategy, w.settings.Scorers = strategy, nil
			if strategy == StrategyWeighted {
				w.settings.Scorers = allScorers()
			}
			w.scrapeAll(3, 1, 0.4)
			p := prompt(part{"32 KB of prompt", 8192})
			w.serve(p)
			got := testing.AllocsPerRun(50, func() {
				c := w.call(p)
				if Grant(c, w.now) != Granted {
					t.Fatal("not granted")
				}
				c.SawFirstToken(w.now)
				c.EndAttempt(w.now, llmlb.Served)
			})
			if got > 4 {
				t.Errorf("%s at %d endpoints: %v allocations, want 4 at most", strategy, n, got)
			}
		}
	}
}
