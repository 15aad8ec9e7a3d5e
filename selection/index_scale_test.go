package selection

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// crowdOf is prompts as they come: of 32 KB, half of them new, the others second
// turns, at 64 servers whose caches have a known size.
type crowdOf struct {
	ix     *index
	now    time.Time
	blocks []uint64
	n      int
	holds  []time.Duration // for how long the index was busy with each
}

// prompt has the index look a prompt up and learn it twice, as sent and as
// computed, and returns how many blocks that was.
func (c *crowdOf) prompt() int {
	c.n++
	c.now = c.now.Add(time.Millisecond)
	seed := uint64(c.n)
	if c.n%2 == 0 {
		seed = uint64(c.n - c.n%64 + 1) // of one not long ago
	}
	c.blocks = c.blocks[:0]
	for range 44 {
		seed = mix(seed + 0x9e3779b97f4a7c15)
		c.blocks = append(c.blocks, seed)
	}
	cache := uint32(c.n%64 + 1)
	var dst [holdersMax]holder
	begun := time.Now()
	c.ix.lookup(c.blocks, c.now, dst[:0])
	for _, proved := range []bool{false, true} {
		at := time.Now()
		c.holds = append(c.holds, at.Sub(begun))
		begun = at
		c.ix.learn(c.blocks, cache, 400<<20, c.now, proved)
	}
	c.holds = append(c.holds, time.Since(begun))
	return len(c.blocks)
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An index that is full stays as large as it is, whatever comes.
func TestAFullIndexTakesNoMore(t *testing.T) {
	const budget = 2 << 20
	c := crowdOf{ix: indexWith(budget), now: time.Unix(1_800_000_000, 0), holds: make([]time.Duration, 0, 3<<14)}
	run := func(blocks int) {
		c.holds = c.holds[:0]
		for blocks > 0 {
			blocks -= c.prompt()
		}
	}
	run(200_000)
	held, room := c.ix.entries()
	if size := int64(room/ways) * setBytes; size > budget || size < budget*9/10 {
		t.Errorf("%d bytes of table for a budget of %d", size, budget)
	}
	if held < room*99/100 {
		t.Fatalf("%d of %d entries are used after 200,000 blocks", held, room)
	}
	before := heap()
	run(200_000)
	after, same := c.ix.entries()
	if after < held || after > room || same != room {
		t.Errorf("%d of %d entries after as many blocks again, %d of %d before", after, same, held, room)
	}
	if grown := heap() - before; grown > 64<<10 && !raceDetector {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	runtime.KeepAlive(c.ix)
}

// Ten million blocks into an index at its budget: what it takes of the heap, and for
// how long it keeps others waiting. One operation is all ten million.
func BenchmarkIndexTenMillion(b *testing.B) {
	if testing.Short() {
		b.Skip("takes some seconds")
	}
	const insertions = 10_000_000
	for b.Loop() {
		before := heap()
		c := crowdOf{ix: indexWith(DefaultIndexBytes), now: time.Unix(1_800_000_000, 0)}
		c.holds = make([]time.Duration, 0, 3*insertions/44+3)
		own := int64(cap(c.holds)) * 8
		for n := 0; n < insertions; {
			n += c.prompt()
		}
		held, room := c.ix.entries()
		b.ReportMetric(float64(heap()-before-own)/(1<<20), "MiB")
		b.ReportMetric(100*float64(held)/float64(room), "%full")
		runtime.KeepAlive(c.ix)
		reportHolds(b, c.holds)
	}
}

// reportHolds reports how long a lock was held, in the worst cases. What the machine
// does meanwhile for others is in it.
func reportHolds(b *testing.B, holds []time.Duration) {
	slices.Sort(holds)
	at := func(share float64) float64 {
		i := int(math.Ceil(share*float64(len(holds)))) - 1
		return float64(holds[max(0, i)]) / float64(time.Microsecond)
	}
	b.ReportMetric(at(0.5), "p50-µs")
	b.ReportMetric(at(0.99), "p99-µs")
	b.ReportMetric(at(0.9999), "p99.99-µs")
}

// The longest prompt there is keeps the index busy for longest: of four megabytes,
// which every server has.
func BenchmarkIndexLongest(b *testing.B) {
	for _, holders := range []int{1, 64} {
		b.Run(fmt.Sprintf("holders=%d", holders), func(b *testing.B) {
			now := time.Unix(1_800_000_000, 0)
			ix := indexWith(DefaultIndexBytes)
			blocks := chainOf(1, maxLearned)
			for cache := range holders {
				ix.learn(blocks, uint32(cache+1), llmlb.Unknown, now, true)
			}
			var dst [holdersMax]holder
			var looked, learned []time.Duration
			for i := 0; b.Loop(); i++ {
				begun := time.Now()
				ix.lookup(blocks, now, dst[:0])
				looked = append(looked, time.Since(begun))
				begun = time.Now()
				ix.learn(blocks, uint32(i%holders+1), llmlb.Unknown, now, true)
				learned = append(learned, time.Since(begun))
			}
			slices.Sort(looked)
			slices.Sort(learned)
			b.ReportMetric(float64(looked[len(looked)/2])/1000, "lookup-µs")
			b.ReportMetric(float64(learned[len(learned)/2])/1000, "learn-µs")
		})
	}
}

// An index of another size is filled while requests go on.
func BenchmarkIndexResize(b *testing.B) {
	c := crowdOf{ix: indexWith(DefaultIndexBytes), now: time.Unix(1_800_000_000, 0)}
	for n := 0; n < 3_000_000; {
		n += c.prompt()
	}
	bytes := int64(DefaultIndexBytes)
	worst := time.Duration(0)
	for b.Loop() {
		bytes ^= 16 << 20
		var wait sync.WaitGroup
		wait.Go(func() { c.ix.resize(bytes) })
		done := make(chan struct{})
		go func() { wait.Wait(); close(done) }()
		for over := false; !over; {
			select {
			case <-done:
				over = true
			default:
			}
			begun := time.Now()
			c.ix.entries()
			worst = max(worst, time.Since(begun))
		}
	}
	b.ReportMetric(float64(worst)/float64(time.Millisecond), "worst-wait-ms")
}
