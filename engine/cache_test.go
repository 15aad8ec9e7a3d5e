package engine

import (
	"slices"
	"testing"
)

func chain(seed uint64, n int) []uint64 {
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = seed*1000 + uint64(i)
	}
	return ids
}

// A request that repeats an earlier prompt finds all of it except for the last
// token, whose output is what the client waits for.
func TestPrefixHit(t *testing.T) {
	shared := chain(1, 4)
	other := append(slices.Clone(shared[:2]), 7001, 7002)
	for _, tc := range []struct {
		name   string
		blocks []uint64
		input  int
		want   int
	}{
		{"same prompt, all blocks full", shared, 16, 15},
		{"same prompt and one token more", shared, 17, 16},
		{"longer prompt", append(slices.Clone(shared), 9001), 20, 16},
		{"common head only", other, 16, 8},
		{"shorter prompt", shared[:1], 6, 4},
		{"shorter than a block", nil, 3, 0},
		{"more ids than tokens", shared, 9, 8},
		{"first block differs", chain(2, 4), 16, 0},
		{"hole in the middle", []uint64{shared[0], 8001, shared[2], shared[3]}, 16, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := tiny(t, 32, 4, 64)
			add(t, r, Request{ID: 1, Blocks: shared, Input: 16, Output: 1})
			drain(t, r)
			add(t, r, Request{ID: 2, Blocks: tc.blocks, Input: tc.input, Output: 1})
			st, ev := one(t, r)
			if len(ev) != 1 || ev[0].Cached != tc.want {
				t.Fatalf("got %+v, want %d cached tokens", ev, tc.want)
			}
			if st.PrefillTokens != tc.input-tc.want {
				t.Errorf("computed %d tokens of %d with %d cached", st.PrefillTokens, tc.input, tc.want)
			}
			s := r.Stats()
			if s.QueryTokens != int64(16+tc.input) || s.HitTokens != int64(tc.want) {
				t.Errorf("queries %d and hits %d, want %d and %d", s.QueryTokens, s.HitTokens, 16+tc.input, tc.want)
			}
		})
	}
}

// The answer's own blocks are found by the next turn of a conversation when
// their ids are known.
func TestGeneratedBlocksAreCached(t *testing.T) {
	r := tiny(t, 32, 4, 64)
	ids := chain(1, 5)
	add(t, r, Request{ID: 1, Blocks: ids, Input: 6, Output: 8})
	drain(t, r)
	// 6 + 8 tokens, the last of which was never computed: 13 make 3 blocks.
	add(t, r, Request{ID: 2, Blocks: ids, Input: 20, Output: 1})
	if ev := drain(t, r); ev[0].Cached != 12 {
		t.Fatalf("next turn found %d tokens, want 12", ev[0].Cached)
	}
}

// Sequences admitted in one step share blocks only if these are published
// early, and in the next step in any case.
func TestPublishing(t *testing.T) {
	for _, early := range []bool{false, true} {
		r, err := New(Config{Costs: flat, KVTokens: 128, BlockSize: 4, MaxSeqs: 8, MaxBatchedTokens: 64, PublishEarly: early})
		if err != nil {
			t.Fatal(err)
		}
		add(t, r, Request{ID: 1, Blocks: chain(1, 2), Input: 10, Output: 2})
		add(t, r, Request{ID: 2, Blocks: chain(1, 2), Input: 10, Output: 2})
		_, ev := one(t, r)
		want := 0
		if early {
			want = 8
		}
		if ev[1].Cached != want {
			t.Errorf("early=%v: second sequence found %d tokens, want %d", early, ev[1].Cached, want)
		}
		drain(t, r)
	}
}

// When memory is needed, the prefix that was released longest ago goes first,
// and of that the tail, since heads are what others share.
func TestEvictionOrder(t *testing.T) {
	r := tiny(t, 6, 1, 64)
	add(t, r, Request{ID: 1, Blocks: chain(1, 3), Input: 12, Output: 1})
	add(t, r, Request{ID: 2, Blocks: chain(2, 3), Input: 12, Output: 1})
	drain(t, r)
	// Two private blocks push out the last two blocks of the older prompt.
	add(t, r, Request{ID: 3, Input: 8, Output: 1})
	drain(t, r)
	if got := r.Stats().Evictions; got != 2 {
		t.Fatalf("%d evictions, want 2", got)
	}
	for _, tc := range []struct {
		id    uint64
		there bool
	}{{1000, true}, {1001, false}, {1002, false}, {2000, true}, {2001, true}, {2002, true}} {
		if _, ok := r.pool.index.get(tc.id); ok != tc.there {
			t.Errorf("block %d in memory: %v, want %v", tc.id, ok, tc.there)
		}
	}
	// Touching the old prefix makes it the younger one.
	add(t, r, Request{ID: 4, Blocks: chain(1, 1), Input: 5, Output: 1})
	drain(t, r)
	add(t, r, Request{ID: 5, Input: 16, Output: 1})
	drain(t, r)
	if _, ok := r.pool.index.get(1000); !ok {
		t.Error("the prefix used last was evicted before older ones")
	}
}
