package selection

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
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

// exact is a cache as engines have it: block by block, and what was used longest
// ago goes first, of one prompt the tail.
type exact struct {
	size, held int64
	clock      int
	used       map[uint64]int // by block
	bytes      map[uint64]int64
}

// holds is how many of the blocks are there, from the first.
func (x *exact) holds(blocks []uint64) (n int) {
	for n < len(blocks) && x.used[blocks[n]] > 0 {
		n++
	}
	return n
}

func (x *exact) use(blocks []uint64) {
	for i, h := range slices.Backward(blocks) {
		if x.used[h] == 0 {
			x.bytes[h] = int64(llmlb.BlockEnd(i+1) - llmlb.BlockEnd(i))
			x.held += x.bytes[h]
		}
		x.clock++
		x.used[h] = x.clock
	}
	order := slices.SortedFunc(maps.Keys(x.used), func(a, b uint64) int { return cmp.Compare(x.used[a], x.used[b]) })
	for _, h := range order {
		if x.held <= x.size {
			break
		}
		x.held -= x.bytes[h]
		delete(x.used, h)
	}
}

// Conversations go on, share what they begin with, and come again after any
// time, so that most of what a server uses it has used before. What is believed
// of its cache must be what an engine would still have: never more, and but for
// the grain of the marks no less.
func TestTheIndexBelievesWhatAnEngineWouldHold(t *testing.T) {
	if raceDetector || testing.Short() {
		t.Skip("takes seconds, on one goroutine")
	}
	for _, tc := range []struct {
		name          string
		conversations int
		popular       float64 // 0: all alike; higher: a few come again and again
		room          int64
	}{
		{"a few prompts again and again", 60, 2, 1 << 20},
		{"all alike, of which a third has room", 60, 0, 1 << 20},
		{"a room for a few prompts", 60, 1, 200 << 10},
		{"a room for all", 60, 1, 100 << 20},
		{"many", 400, 1.2, 2 << 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 11))
			ix, now := indexWith(16<<20), time.Unix(1_800_000_000, 0)
			x := &exact{size: tc.room, used: map[uint64]int{}, bytes: map[uint64]int64{}}
			system := chainOf(1, 10)
			talks := make([][]uint64, tc.conversations)
			var asked, found, wrong, missed int
			for range 1200 {
				now = now.Add(time.Duration(100+rng.IntN(3000)) * time.Millisecond)
				i := int(float64(len(talks)) * math.Pow(rng.Float64(), 1+tc.popular))
				if len(talks[i]) == 0 || len(talks[i]) > 100 { // a new one
					talks[i] = append(slices.Clone(system[:2+rng.IntN(8)]), chainOf(rng.Uint64(), 5)...)
				}
				blocks := talks[i]
				believed, there := held(ix, blocks, 1, now), x.holds(blocks)
				asked += llmlb.BlockEnd(len(blocks))
				found += llmlb.BlockEnd(there)
				wrong += max(0, llmlb.BlockEnd(believed)-llmlb.BlockEnd(there))
				missed += max(0, llmlb.BlockEnd(there)-llmlb.BlockEnd(believed))
				ix.learn(blocks, 1, tc.room, now, false) // sent
				if rng.IntN(20) > 0 {
					now = now.Add(time.Duration(100+rng.IntN(900)) * time.Millisecond)
				}
				ix.learn(blocks, 1, tc.room, now, true) // and computed
				x.use(blocks)
				talks[i] = append(blocks, chainOf(rng.Uint64(), 1+rng.IntN(12))...)
			}
			share := func(n int) float64 { return 100 * float64(n) / float64(asked) }
			t.Logf("of %d bytes %.1f %% are found, %.2f %% wrongly believed, %.2f %% not known", asked, share(found), share(wrong), share(missed))
			if share(wrong) > 0.1 {
				t.Errorf("%.2f %% of all bytes are wrongly believed to be held", share(wrong))
			}
			if share(missed) > 2 {
				t.Errorf("%.2f %% of all bytes are held, and not known to be", share(missed))
			}
		})
	}
}

// The system prompt of a pool that is larger than the index can tell apart is new
// to a server by the index each time. It must not be taken to fill its cache anew
// each time.
func TestACrowdedPrefixTakesRoomOnce(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ix := indexWith(16 << 20)
	const servers, room = 2 * holdersMax, 200 << 10
	preamble := chainOf(1, 40) // 28 KB
	own := chainOf(2, 40)
	ix.learn(own, 1, room, now, true)
	for range 20 {
		for cache := range uint32(servers) {
			now = now.Add(100 * time.Millisecond)
			ix.learn(preamble, cache+1, room, now, true)
		}
	}
	if n := held(ix, own, 1, now); n != 40 {
		t.Errorf("%d of 40 blocks are left of the other prompt in a cache that holds 200 KB", n)
	}
}

// Answers and the ends of prompts fill a cache as blocks do.
func TestAnswersTakeRoom(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ix := newIndex().(*index)
	const room = 100 * 16 * 256
	first := ix.learned(16, 1, 1, room, now)
	for i := range 60 { // with an answer as long as the prompt
		now = now.Add(time.Second)
		ix.fill(1, room, 16*256, now)
		ix.learned(16, uint64(1000+i), 1, room, now)
		if i == 40 && held(ix, first, 1, now) != 16 {
			t.Error("after 40 of 50 prompts with answers the first is gone")
		}
	}
	if n := held(ix, first, 1, now); n != 0 {
		t.Errorf("60 prompts and 60 answers later a cache for 100 still holds %d blocks of the first", n)
	}
}

// A prompt in a script of which a token is few bytes says that the cache has room
// for few bytes. One such prompt must not push out what others fill it with.
func TestOneOddRatioPushesNothingOut(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ix := newIndex().(*index)
	const room = 100 * 16 * 256
	first := ix.learned(16, 1, 1, room, now)
	for i := range 80 {
		now = now.Add(time.Second)
		ix.learned(16, uint64(1000+i), 1, room, now)
	}
	ix.learned(16, 2, 1, room/3, now)
	if n := held(ix, first, 1, now); n != 16 {
		t.Errorf("%d blocks are left, want 16", n)
	}
	for i := range 80 { // all prompts are in that script now
		now = now.Add(time.Second)
		ix.learned(16, uint64(2000+i), 1, room/3, now)
	}
	if n := held(ix, chainOf(2000, 16), 1, now); n != 0 {
		t.Errorf("%d blocks are left where there is room for 33 prompts and 80 came, want none", n)
	}
}

// A scrape that failed leaves the size unknown for a while. The cache fills on.
func TestASizeThatIsUnknownForAWhile(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ix := newIndex().(*index)
	const room = 100 * 16 * 256
	first := ix.learned(16, 1, 1, room, now)
	for i := range 140 {
		now = now.Add(time.Second)
		ix.learned(16, uint64(1000+i), 1, llmlb.Unknown, now)
	}
	if n := held(ix, first, 1, now); n != 0 {
		t.Errorf("%d blocks are left, want none", n)
	}
}

// Engines that restart leave rooms behind. Their number is bounded, and those in
// use are kept.
func TestRoomsOfRestartedEnginesAreDropped(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ix := newIndex().(*index)
	const room = 10 * 16 * 256
	first := ix.learned(16, 1, 1, room, now)
	for i := range 20 {
		now = now.Add(time.Second)
		ix.learned(16, uint64(10+i), 1, room, now)
	}
	for restart := range uint32(roomsMax + 100) {
		now = now.Add(time.Second)
		ix.learned(1, 5, 1000+restart, room, now)
		if restart%100 == 0 {
			ix.learned(1, 6, 1, room, now)
		}
	}
	if len(ix.rooms) > roomsMax {
		t.Errorf("%d rooms, want %d at most", len(ix.rooms), roomsMax)
	}
	if n := held(ix, first, 1, now); n != 0 {
		t.Errorf("%d blocks are believed again of what the cache displaced", n)
	}
}

// The index's clock begins anew after 6.8 years.
func TestUsesAreOrderedWhenTheClockWraps(t *testing.T) {
	order := []use{usedAt(tickMask-1, 9), usedAt(tickMask-1, 2), usedAt(tickMask, 5), usedAt(0, 5), usedAt(0, 0), usedAt(1, 4000)}
	for i := range order {
		for j := range order {
			if got := order[i].before(order[j]); got != (i < j) {
				t.Errorf("use %d is before use %d: %v", i, j, got)
			}
		}
	}
	if s := stampOf(3, 200, true); s.used(200) != usedAt(3, 200) {
		t.Errorf("a stamp of tick 3 says %d, want %d", s.used(200), usedAt(3, 200))
	}
}
