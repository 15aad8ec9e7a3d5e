package selection

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A system prompt is in the cache of every server. Those of which that is not
// known look cold, so that new conversations crowd on the others.
func TestEveryHolderOfAHotPrefixIsKnown(t *testing.T) {
	for _, n := range []int{1, slotsEach, slotsEach + 1, 8, 16, 33, holdersMax} {
		t.Run(fmt.Sprint(n, " servers"), func(t *testing.T) {
			ix, now := indexWith(1<<20), time.Unix(1_800_000_000, 0)
			preamble := chainOf(1, 40)
			for range 3 {
				for cache := range uint32(n) {
					now = now.Add(time.Second)
					question := append(preamble[:40:40], chainOf(uint64(now.Unix()), 4)...)
					ix.learn(question, cache+1, llmlb.Unknown, now, true)
				}
			}
			for cache := range uint32(n) {
				if got := held(ix, preamble, cache+1, now); got != 40 {
					t.Errorf("server %d is known to hold %d of 40 blocks", cache+1, got)
				}
			}
		})
	}
}

// Servers whose caches have kept different lengths of one prefix are each known by
// their own, though only some blocks are asked for all of their holders.
func TestHoldersOfDifferentLengths(t *testing.T) {
	ix, now := indexWith(4<<20), time.Unix(1_800_000_000, 0)
	prompt := chainOf(1, 300)
	length := func(cache uint32) int {
		switch {
		case cache%7 == 0:
			return 3 // share the tools alone
		case cache%3 == 0:
			return 120 + int(cache)
		}
		return 200
	}
	for cache := uint32(1); cache <= holdersMax; cache++ {
		now = now.Add(100 * time.Millisecond)
		ix.learn(prompt[:length(cache)], cache, llmlb.Unknown, now, cache != 5)
	}
	holders := ix.lookup(prompt, now, nil)
	if len(holders) != holdersMax {
		t.Errorf("%d holders, want %d", len(holders), holdersMax)
	}
	for _, h := range holders {
		if int(h.blocks) != length(h.cache) {
			t.Errorf("server %d is known to hold %d blocks, want %d", h.cache, h.blocks, length(h.cache))
		}
		if want := h.blocks; h.proved != want && h.cache != 5 {
			t.Errorf("of server %d %d blocks are proved, want %d", h.cache, h.proved, want)
		}
	}
}

// Beyond as many servers as are remembered, those are known that used the prefix
// last, and the others still for what they alone hold.
func TestMoreHoldersThanAreRemembered(t *testing.T) {
	ix, now := indexWith(1<<20), time.Unix(1_800_000_000, 0)
	preamble := chainOf(1, 30)
	const n = 3 * holdersMax
	for cache := uint32(1); cache <= n; cache++ {
		now = now.Add(time.Second)
		ix.learn(append(preamble[:30:30], chainOf(uint64(cache), 10)...), cache, llmlb.Unknown, now, true)
	}
	for cache := uint32(n - holdersMax + 1); cache <= n; cache++ {
		if got := held(ix, preamble, cache, now); got != 30 {
			t.Errorf("server %d, one of the last, is known to hold %d of 30 blocks", cache, got)
		}
	}
	if got := held(ix, append(preamble[:30:30], chainOf(7, 10)...), 7, now); got != 40 {
		t.Errorf("server 7 is known to hold %d blocks of its own conversation, want 40", got)
	}
}

// Few blocks are hot. One that several servers had in the course of an hour must
// not take the place of several.
func TestOnlyWhatIsInUseTakesMoreThanOneEntry(t *testing.T) {
	ix, now := indexWith(1<<20), time.Unix(1_800_000_000, 0)
	conversation := chainOf(1, 10)
	for cache := uint32(1); cache <= 40; cache++ {
		now = now.Add(crowdFor/slotsEach + time.Second)
		ix.learn(conversation, cache, llmlb.Unknown, now, true)
	}
	if n, _ := ix.entries(); n != 10 {
		t.Errorf("10 blocks have %d entries", n)
	}
	for cache := uint32(41 - slotsEach); cache <= 40; cache++ {
		if got := held(ix, conversation, cache, now); got != 10 {
			t.Errorf("server %d, one of the last, is known to hold %d of 10 blocks", cache, got)
		}
	}
}

// What one server is found not to hold says nothing of the others.
func TestForgettingOneOfManyHolders(t *testing.T) {
	ix, now := indexWith(1<<20), time.Unix(1_800_000_000, 0)
	preamble := chainOf(1, 20)
	for cache := uint32(1); cache <= 20; cache++ {
		ix.learn(preamble, cache, llmlb.Unknown, now, true)
	}
	lost := map[uint32]bool{1: true, 4: true, 11: true, 20: true}
	for cache := range lost {
		ix.forget(preamble, cache)
	}
	check := func(when string) {
		t.Helper()
		for cache := uint32(1); cache <= 20; cache++ {
			want := 20
			if lost[cache] {
				want = 0
			}
			if got := held(ix, preamble, cache, now); got != want {
				t.Errorf("%s server %d is known to hold %d of 20 blocks, want %d", when, cache, got, want)
			}
		}
	}
	check("afterwards")
	before, _ := ix.entries()
	for cache := range lost {
		ix.learn(preamble, cache, llmlb.Unknown, now, true)
		delete(lost, cache)
	}
	check("when it is there again")
	if after, _ := ix.entries(); after != before {
		t.Errorf("%d entries, want the %d there were: places were free", after, before)
	}
	ix.resize(4 << 20)
	check("in a larger index")
}
