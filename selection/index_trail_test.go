package selection

import (
	"slices"
	"testing"
	"time"
)

// A prompt that is learned along the trail of the first time is believed of the same
// servers as one that is searched for again, whatever came between: other prompts that
// took its places, a server that had lost it, an index of another size.
func TestATrailLeadsToTheSame(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	with, without := indexWith(300<<10), indexWith(300<<10)
	both := func(f func(*index)) { f(with); f(without) }
	state := uint64(1)
	random := func(n int) int {
		state = mix(state + 0x9e3779b97f4a7c15)
		return int(state % uint64(n))
	}
	var computed []func()
	for i := range 6000 {
		now := now.Add(time.Duration(i) * 300 * time.Millisecond)
		blocks := append(chainOf(uint64(random(5)), random(30)), chainOf(uint64(random(2000)), 1+random(150))...)
		cache, room := uint32(1+random(90)), int64(random(3<<20))
		switch random(20) {
		case 0:
			both(func(ix *index) { ix.forget(blocks, cache) })
		case 1:
			if random(100) == 0 {
				bytes := int64(200+random(2)*200) << 10
				both(func(ix *index) { ix.resize(bytes) })
			}
		}
		if got, want := with.lookup(blocks, now, nil), without.lookup(blocks, now, nil); !slices.Equal(got, want) {
			t.Fatalf("prompt %d is held by %v, want %v", i, got, want)
		}
		trail := with.learnSent(blocks, cache, room, now)
		without.learn(blocks, cache, room, now, false)
		computed = append(computed, func() {
			later := now.Add(time.Second)
			with.learnComputed(trail, blocks, cache, room, later)
			without.learn(blocks, cache, room, later, true)
		})
		if n := random(len(computed)); random(4) > 0 {
			computed[n]()
			computed = slices.Delete(computed, n, n+1)
		}
		if len(computed) > 50 {
			computed = computed[1:] // has failed
		}
	}
	if got, all := with.entries(); got < all*9/10 {
		t.Errorf("%d of %d entries are used: nothing lost its place", got, all)
	}
}

// A trail is there until as many blocks have been sent after it as there are cells,
// and never leads over the ring's end.
func TestOldTrailsAreWrittenOver(t *testing.T) {
	var ts trails
	const blocks = 1000
	first := ts.begin(blocks)
	for sent := blocks; sent+blocks <= trailCells; sent += blocks {
		if at := ts.of(first, blocks); len(at) != blocks {
			t.Fatalf("after %d blocks the first trail has %d cells, want %d", sent, len(at), blocks)
		}
		if at := ts.of(ts.begin(blocks), blocks); len(at) != blocks || &at[0] == &ts.cells[0] {
			t.Fatalf("after %d blocks a trail of %d cells on another's", sent, len(at))
		}
	}
	last := ts.begin(blocks)
	if at := ts.of(last, blocks); len(at) != blocks || &at[0] != &ts.cells[0] {
		t.Error("the ring does not begin again")
	}
	if at := ts.of(first, blocks); at != nil {
		t.Errorf("%d cells of a trail that was written over", len(at))
	}
}

// Whoever waits for the index gets in while a long prompt is learned.
func TestTheIndexLetsOthersIn(t *testing.T) {
	ix, in := indexWith(1<<20), make(chan struct{})
	ix.lock()
	defer ix.mu.Unlock()
	go func() {
		ix.entries()
		close(in)
	}()
	for {
		select {
		case <-in:
			return
		default:
			ix.breathe()
		}
	}
}
