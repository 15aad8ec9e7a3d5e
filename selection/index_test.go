package selection

import (
	"runtime"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func chainOf(seed uint64, n int) []uint64 {
	blocks := make([]uint64, n)
	for i := range blocks {
		seed = mix(seed + 0x9e3779b97f4a7c15)
		blocks[i] = seed
	}
	return blocks
}

func indexWith(bytes int64) *index {
	ix := newIndex().(*index)
	ix.bytes.Store(bytes)
	return ix
}

// learn notes that the cache holds the blocks, or will when not proved, as a Call does
// whose trail is lost.
func (ix *index) learn(blocks []uint64, cache uint32, room int64, now time.Time, proved bool) {
	ix.lock()
	defer ix.mu.Unlock()
	ix.follow(nil, false, blocks, cache, room, now, proved)
}

// held is how many of the blocks the index says the cache holds.
func held(ix *index, blocks []uint64, cache uint32, now time.Time) int {
	for _, h := range ix.lookup(blocks, now, nil) {
		if h.cache == cache {
			return int(h.blocks)
		}
	}
	return 0
}

// However many distinct prompts come, the index takes what it was given.
func TestIndexMemoryIsBounded(t *testing.T) {
	const budget = 400 << 10
	ix := indexWith(budget)
	now := time.Unix(1000, 0)
	ix.learn(chainOf(1, 8), 1, llmlb.Unknown, now, true)
	_, room := ix.entries()
	if size := int64(room/ways) * setBytes; size > budget || size < budget*9/10 {
		t.Fatalf("%d bytes of table for a budget of %d", size, budget)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var blocks [8]uint64
	for i := range 100_000 {
		seed := uint64(i + 2)
		for j := range blocks {
			seed = mix(seed + 0x9e3779b97f4a7c15)
			blocks[j] = seed
		}
		ix.learn(blocks[:], 1, llmlb.Unknown, now, true)
		now = now.Add(time.Millisecond)
		if n, _ := ix.entries(); n > room {
			t.Fatalf("%d entries in a table of %d", n, room)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<10 {
		t.Errorf("the heap grew by %d bytes over 100,000 prompts", grown)
	}
	if n, _ := ix.entries(); n != room {
		t.Errorf("%d of %d entries used after 800,000 blocks", n, room)
	}
	if n := held(ix, blocks[:], 1, now); n != 8 {
		t.Errorf("the newest prompt is held by %d of 8 blocks", n)
	}
}

// A prompt that is asked for now and then outlives any number of others that
// are asked for once.
func TestIndexKeepsWhatIsUsed(t *testing.T) {
	ix := indexWith(1 << 20)
	now := time.Unix(1000, 0)
	kept := chainOf(7, 20)
	ix.learn(kept, 1, llmlb.Unknown, now, true)
	for i := range 50_000 {
		now = now.Add(10 * time.Millisecond)
		ix.learn(chainOf(uint64(1000+i), 4), 1, llmlb.Unknown, now, true)
		if i%500 == 0 {
			ix.learn(kept, 1, llmlb.Unknown, now, true)
		}
	}
	if n := held(ix, kept, 1, now); n != 20 {
		t.Errorf("%d of 20 blocks are left of the prompt in use", n)
	}
	if n := held(ix, chainOf(1000, 4), 1, now); n != 0 {
		t.Errorf("%d of 4 blocks are left of the oldest prompt", n)
	}
}

// The head of a prompt is worth more than its tail, which is useless without.
func TestIndexEvictsTheTailFirst(t *testing.T) {
	ix := indexWith(256 << 10)
	now := time.Unix(1000, 0)
	long := chainOf(7, 2000)
	ix.learn(long, 1, llmlb.Unknown, now, true)
	for i := 0; held(ix, long, 1, now) == 2000; i++ {
		now = now.Add(10 * time.Millisecond)
		ix.learn(chainOf(uint64(1000+i), 4), 1, llmlb.Unknown, now, true)
	}
	if n := held(ix, long, 1, now); n < 1000 {
		t.Errorf("the first eviction cut the prompt to %d of 2,000 blocks", n)
	}
}

func TestIndexTellsEndpointsApart(t *testing.T) {
	ix := indexWith(1 << 20)
	now := time.Unix(1000, 0)
	blocks := chainOf(3, 40)
	ix.learn(blocks, 1, llmlb.Unknown, now, true)
	ix.learn(blocks[:10], 2, llmlb.Unknown, now, true)
	for cache := uint32(3); cache < 3+holdersMax; cache++ { // crowd the first blocks
		now = now.Add(time.Second)
		ix.learn(blocks[:5], cache, llmlb.Unknown, now, true)
	}
	if n := held(ix, blocks, 1, now); n != 40 {
		t.Errorf("endpoint 1 holds %d, want 40: it is known by its deepest block", n)
	}
	if n := held(ix, blocks, 2, now); n != 10 {
		t.Errorf("endpoint 2 holds %d, want 10", n)
	}
	if n := len(ix.lookup(blocks, now, nil)); n != holdersMax {
		t.Errorf("%d endpoints are told apart, want %d", n, holdersMax)
	}
	if got := ix.lookup(chainOf(4, 40), now, nil); len(got) != 0 {
		t.Errorf("a prompt nobody has seen is held by %v", got)
	}
}

// What was only sent counts for a moment; what got its first token, for good.
func TestIndexForgetsWhatWasNeverProved(t *testing.T) {
	ix := indexWith(1 << 20)
	now := time.Unix(1000, 0)
	sent, proved := chainOf(1, 10), chainOf(2, 10)
	ix.learn(sent, 1, llmlb.Unknown, now, false)
	ix.learn(proved, 1, llmlb.Unknown, now, false)
	ix.learn(proved, 1, llmlb.Unknown, now, true)
	ix.learn(proved, 1, llmlb.Unknown, now, false) // asked again later, and never answered
	if held(ix, sent, 1, now) != 10 {
		t.Error("a prompt just sent is not held")
	}
	now = now.Add(pendingFor + time.Second)
	if n := held(ix, sent, 1, now); n != 0 {
		t.Errorf("%d blocks without a first token are still held", n)
	}
	if n := held(ix, proved, 1, now); n != 10 {
		t.Errorf("%d of 10 proved blocks are held", n)
	}
}

// An engine that restarted has an empty cache, whatever it held before.
func TestARestartForgetsThePrefix(t *testing.T) {
	list := addresses(2)
	w := newWorld(t, list...)
	p := prompt(part{"preamble", 1000})
	home, _ := w.serve(p)
	restart := func(start float64) {
		s := llmlb.NoSignals(w.now)
		s.Running, s.Waiting, s.ProcessStart = 0, 0, start
		w.endpoint(home).ObserveSignals(s)
	}
	restart(100)
	if _, d := w.serve(p); d.Reason != llmlb.ReasonWarm {
		t.Fatalf("reason %v before the restart, want warm", d.Reason)
	}
	restart(200)
	if _, d := w.serve(p); d.Reason != llmlb.ReasonCold || d.Best != 0 {
		t.Fatalf("reason %v, best match %d after the restart, want cold and 0", d.Reason, d.Best)
	}
}

// A smaller budget keeps the newest, a larger one keeps all.
func TestIndexResizes(t *testing.T) {
	ix := indexWith(1 << 20)
	now := time.Unix(1000, 0)
	for i := range 1000 {
		now = now.Add(time.Second)
		ix.learn(chainOf(uint64(i), 10), 1, llmlb.Unknown, now, true)
	}
	before, _ := ix.entries()
	ix.resize(4 << 20)
	if after, _ := ix.entries(); after != before {
		t.Errorf("%d entries after growing, %d before", after, before)
	}
	ix.resize(128 << 10)
	if n := held(ix, chainOf(999, 10), 1, now); n != 10 {
		t.Errorf("%d of 10 blocks of the newest prompt are left after shrinking", n)
	}
	if n := held(ix, chainOf(0, 10), 1, now); n != 0 {
		t.Errorf("%d blocks of the oldest prompt are left after shrinking", n)
	}
}
