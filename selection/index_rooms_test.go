package selection

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// learned has the index learn a prompt of that many blocks, computed at once.
func (ix *index) learned(n int, seed uint64, cache uint32, room int64, now time.Time) []uint64 {
	blocks := chainOf(seed, n)
	ix.learn(blocks, cache, room, now, true)
	return blocks
}

// A server with a small KV cache has evicted a prompt long before the index,
// which is much larger, would forget it. Believing otherwise sends conversations
// to where they must be computed again.
func TestTheIndexBelievesNoMoreThanACacheHolds(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ix := newIndex().(*index)
	const room = 100 * 16 * 256 // a hundred prompts of sixteen blocks
	first := ix.learned(16, 1, 1, room, now)
	alive := ix.learned(16, 2, 1, room, now)
	for i := range 140 {
		now = now.Add(time.Second)
		ix.learned(16, uint64(1000+i), 1, room, now)
		ix.learned(16, 2, 1, room, now) // used again and again
		if i == 80 && held(ix, first, 1, now) != 16 {
			t.Errorf("after 80 of 100 prompts the first is gone")
		}
	}
	if n := held(ix, first, 1, now); n != 0 {
		t.Errorf("140 prompts later a cache for 100 still holds %d blocks of the first", n)
	}
	if n := held(ix, alive, 1, now); n != 16 {
		t.Errorf("of the prompt in use %d blocks are left, want 16", n)
	}

	t.Run("sent again it is there again", func(t *testing.T) {
		ix.learned(16, 1, 1, room, now)
		if n := held(ix, first, 1, now); n != 16 {
			t.Errorf("%d blocks, want 16", n)
		}
	})
	t.Run("the others' caches are their own", func(t *testing.T) {
		ix.learned(16, 1, 2, room, now)
		if n := held(ix, first, 2, now); n != 16 {
			t.Errorf("%d blocks, want 16", n)
		}
	})
}

// Prompts that were sent and refused, for their length as often as not, were
// never computed. They take no room, and push nothing out.
func TestRefusedPromptsTakeNoRoom(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ix := newIndex().(*index)
	const room = 100 * 16 * 256
	kept := ix.learned(16, 1, 1, room, now)
	for i := range 500 {
		now = now.Add(time.Second)
		ix.learn(chainOf(uint64(1000+i), 16), 1, room, now, false)
	}
	if n := held(ix, kept, 1, now); n != 16 {
		t.Errorf("after 500 refused prompts %d blocks are left, want 16", n)
	}
}

// A working set of twice a cache's size goes round and round: each prompt is
// displaced before it comes again, and has to be computed again. It must take its
// room again too, or the index would soon believe all of them.
func TestWhatIsComputedAgainTakesRoomAgain(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ix := newIndex().(*index)
	const prompts, room = 200, 100 * 16 * 256
	for range 3 {
		for i := range prompts {
			now = now.Add(time.Second)
			blocks := chainOf(uint64(1000+i), 16)
			ix.learn(blocks, 1, room, now, false) // sent
			ix.learn(blocks, 1, room, now, true)  // and computed
		}
	}
	believed := 0
	for i := range prompts {
		if held(ix, chainOf(uint64(1000+i), 16), 1, now) > 0 {
			believed++
		}
	}
	if believed < 80 || believed > 110 {
		t.Errorf("%d of %d prompts are believed to be held where there is room for 100", believed, prompts)
	}
}

// Where the engine does not tell how large its cache is, only the index's own
// budget counts.
func TestACacheOfUnknownSizeKeepsAll(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ix := newIndex().(*index)
	first := ix.learned(16, 1, 1, llmlb.Unknown, now)
	for i := range 2000 {
		now = now.Add(time.Second)
		ix.learned(16, uint64(1000+i), 1, llmlb.Unknown, now)
	}
	if n := held(ix, first, 1, now); n != 16 {
		t.Errorf("%d blocks are left, want 16", n)
	}
}

// What is forgotten is forgotten of one server, and its place is free again.
func TestForgettingBlocks(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ix := newIndex().(*index)
	blocks := ix.learned(16, 1, 1, llmlb.Unknown, now)
	ix.learned(16, 1, 2, llmlb.Unknown, now)
	ix.forget(blocks[4:], 1)
	if a, b := held(ix, blocks, 1, now), held(ix, blocks, 2, now); a != 4 || b != 16 {
		t.Errorf("the servers hold %d and %d blocks, want 4 and 16", a, b)
	}
	ix.forget(blocks, 2)
	if held, _ := ix.entries(); held != 4 {
		t.Errorf("%d blocks are kept for somebody, want the 4 of the first server", held)
	}
	ix.forget(chainOf(99, 5), 1) // never heard of
}
