package engine

import (
	"slices"
	"strings"
	"testing"
)

// twins are two tiny replicas of one pool.
func twins(t testing.TB, blocks int, s *Store) (a, b *Replica) {
	t.Helper()
	for _, r := range []**Replica{&a, &b} {
		var err error
		*r, err = New(Config{Costs: flat, KVTokens: 4 * blocks, BlockSize: 4, MaxSeqs: 4, MaxBatchedTokens: 64, Store: s})
		if err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// What one replica of the pool has computed, the others find as if it were
// theirs, without computing it again.
func TestStoreIsShared(t *testing.T) {
	for _, tokens := range []int{0, 1000} {
		s := NewStore(tokens, 4)
		a, b := twins(t, 16, s)
		add(t, a, Request{ID: 1, Blocks: chain(1, 4), Input: 16, Output: 1})
		drain(t, a)
		if s.Tokens() != 16 {
			t.Fatalf("store holds %d tokens, want 16", s.Tokens())
		}
		if got := b.Match(chain(1, 5)); got != 16 {
			t.Errorf("the other replica would find %d tokens, want 16", got)
		}
		add(t, b, Request{ID: 2, Blocks: chain(1, 5), Input: 22, Output: 2})
		if got := b.Pending(); got != 6 {
			t.Errorf("%d tokens pending, want 6", got)
		}
		st, ev := one(t, b)
		if ev[0].Cached != 16 || st.PrefillTokens != 6 {
			t.Errorf("%+v in a step of %+v, want 16 tokens found and 6 computed", ev, st)
		}
		// They are in its memory now, as if it had computed them.
		if got := b.Stats(); got.ReferencedBlocks != 6 || got.FetchedTokens != 16 || got.CachedTokens != 20 {
			t.Errorf("%+v, want 6 blocks held, 16 tokens fetched, 20 findable", got)
		}
		drain(t, b)
	}
}

// The cap that leaves one token to compute holds for what is fetched, too.
func TestStoreHitIsCapped(t *testing.T) {
	a, b := twins(t, 16, NewStore(0, 4))
	add(t, a, Request{ID: 1, Blocks: chain(1, 2), Input: 8, Output: 1})
	drain(t, a)
	add(t, b, Request{ID: 2, Blocks: chain(1, 2), Input: 8, Output: 1})
	if st, ev := one(t, b); ev[0].Cached != 7 || st.PrefillTokens != 1 {
		t.Errorf("%+v in a step of %+v, want 7 tokens found and 1 computed", ev, st)
	}
	if got := b.Stats(); got.FetchedTokens != 7 || got.ReusedTokens != 7 {
		t.Errorf("%+v, want 7 tokens fetched", got)
	}
}

// A run may lie partly in memory and partly in the store, in any order, and
// fetching one part must not push out the other.
func TestStoreFillsHoles(t *testing.T) {
	a, b := twins(t, 6, NewStore(0, 4))
	ids := chain(1, 6)
	add(t, a, Request{ID: 1, Blocks: ids, Input: 24, Output: 1})
	add(t, b, Request{ID: 1, Blocks: ids[:3], Input: 12, Output: 1})
	drain(t, b)
	drain(t, a)
	// Memory is full of b's own three blocks and three of another prompt.
	add(t, b, Request{ID: 2, Blocks: chain(2, 3), Input: 12, Output: 1})
	drain(t, b)
	add(t, b, Request{ID: 3, Blocks: ids, Input: 24, Output: 1})
	if _, ev := one(t, b); ev[0].Cached != 23 {
		t.Errorf("%+v, want 23 tokens found", ev)
	}
	if got := b.Stats(); got.FetchedTokens != 12 || got.Evictions != 3 {
		t.Errorf("%+v, want 3 blocks fetched in place of the other prompt's", got)
	}
	// What the store alone knows takes memory; without it the prompt waits.
	add(t, b, Request{ID: 4, Blocks: chain(2, 2), Input: 9, Output: 9})
	add(t, b, Request{ID: 5, Blocks: ids, Input: 24, Output: 1})
	one(t, b)
	if got := b.Stats(); got.Running != 1 || got.Waiting != 1 {
		t.Errorf("%+v, want the long prompt to wait for memory", got)
	}
	drain(t, b)
}

// A full store forgets what was used longest ago, and of one prompt the tail
// first, however many steps it took to compute.
func TestStoreForgets(t *testing.T) {
	s := NewStore(6*4, 4)
	a, b := twins(t, 16, s)
	a.config.MaxBatchedTokens = 4
	has := func(ids ...uint64) {
		t.Helper()
		var have []uint64
		for id := range uint64(9999) {
			if s.has(id) {
				have = append(have, id)
			}
		}
		if !slices.Equal(have, ids) {
			t.Errorf("store holds %v, want %v", have, ids)
		}
	}
	add(t, a, Request{ID: 1, Blocks: chain(1, 3), Input: 12, Output: 1})
	drain(t, a)
	add(t, b, Request{ID: 1, Blocks: chain(2, 3), Input: 12, Output: 1})
	drain(t, b)
	has(1000, 1001, 1002, 2000, 2001, 2002)
	add(t, b, Request{ID: 2, Blocks: chain(3, 2), Input: 8, Output: 1})
	drain(t, b)
	has(1000, 2000, 2001, 2002, 3000, 3001)
	// Used again, the older prompt is the younger one.
	add(t, b, Request{ID: 3, Blocks: chain(1, 1), Input: 5, Output: 1})
	drain(t, b)
	add(t, b, Request{ID: 4, Blocks: chain(4, 4), Input: 16, Output: 1})
	drain(t, b)
	has(1000, 3000, 4000, 4001, 4002, 4003)
	// What is found counts as used at once, not only when its user is done.
	add(t, b, Request{ID: 5, Blocks: chain(3, 1), Input: 5, Output: 9})
	one(t, b)
	add(t, a, Request{ID: 2, Blocks: chain(5, 2), Input: 8, Output: 1})
	drain(t, a)
	has(3000, 4000, 4001, 4002, 5000, 5001)
	if s.Tokens() != 24 {
		t.Errorf("store holds %d tokens, want 24", s.Tokens())
	}
}

// A prompt larger than the store leaves its head there.
func TestStoreSmallerThanPrompt(t *testing.T) {
	for _, tc := range []struct{ tokens, want int }{{3, 0}, {4, 4}, {11, 8}} {
		s := NewStore(tc.tokens, 4)
		a, b := twins(t, 16, s)
		add(t, a, Request{ID: 1, Blocks: chain(1, 5), Input: 20, Output: 3})
		drain(t, a)
		if got := b.Match(chain(1, 5)); got != tc.want {
			t.Errorf("store of %d tokens: %d would be found, want %d", tc.tokens, got, tc.want)
		}
	}
}

func TestStoreOfOtherBlocks(t *testing.T) {
	cfg, _ := Preset("8b-h100")
	cfg.Store = NewStore(0, 512)
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "store of blocks of 512") {
		t.Errorf("got %v, want a complaint about the store's blocks", err)
	}
}
