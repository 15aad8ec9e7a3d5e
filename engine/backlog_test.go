package engine

import (
	"math/rand/v2"
	"testing"
)

// Whoever asks a replica beforehand what a prompt would find is told what it
// does find.
func TestMatch(t *testing.T) {
	r := tiny(t, 32, 4, 64)
	ids := chain(1, 4)
	add(t, r, Request{ID: 1, Blocks: ids, Input: 16, Output: 1})
	if got := r.Match(ids); got != 0 {
		t.Fatalf("%d tokens would be found before anything was computed", got)
	}
	drain(t, r)
	for _, tc := range []struct {
		name   string
		blocks []uint64
		want   int
	}{
		{"the same prompt, all of it", ids, 16},
		{"its head", ids[:2], 8},
		{"a longer one", append(chain(1, 4), 77), 16},
		{"another", chain(2, 4), 0},
		{"a hole in the middle", []uint64{ids[0], 77, ids[2]}, 4},
		{"nothing that can be shared", nil, 0},
	} {
		if got := r.Match(tc.blocks); got != tc.want {
			t.Errorf("%s: %d tokens, want %d", tc.name, got, tc.want)
		}
	}
}

// The backlog is what is left to compute at each moment, whatever a sequence
// has gone through.
func TestBacklog(t *testing.T) {
	r := tiny(t, 16, 2, 8)
	steps := 0
	expect := func(when string, pending, decoding int) {
		t.Helper()
		if p, d := r.Pending(), r.Decoding(); p != pending || d != decoding {
			t.Errorf("%s: %d tokens pending and %d sequences decoding, want %d and %d", when, p, d, pending, decoding)
		}
	}
	step := func() { one(t, r); steps++ }

	expect("idle", 0, 0)
	add(t, r, Request{ID: 1, Blocks: chain(1, 3), Input: 12, Output: 4})
	expect("one waiting", 12, 0)
	r.Begin(0)
	expect("while its first chunk is computed", 12, 0)
	r.End(nil)
	expect("after the first chunk", 4, 0)
	// Two of these three blocks are in memory by now.
	add(t, r, Request{ID: 2, Blocks: chain(1, 3), Input: 14, Output: 4})
	add(t, r, Request{ID: 3, Blocks: chain(1, 2), Input: 8, Output: 1})
	expect("two more waiting", 4+6+1, 0)
	step() // the rest of 1 and 4 tokens of 2
	expect("first token of 1", 2+1, 1)
	step()
	expect("first token of 2", 1, 2)
	r.Abort(3)
	expect("the third left", 0, 2)

	// A preempted sequence has had its first token: none of it is pending.
	i := len(r.running) - 1
	r.preempt(r.running[i])
	r.running = r.running[:i]
	expect("one preempted", 0, 1)
	drain(t, r)
	expect("idle again", 0, 0)
}

// Of a prompt whose blocks go on into the answer only the prompt counts.
func TestBacklogLeavesTheAnswerOut(t *testing.T) {
	r := tiny(t, 32, 1, 64)
	add(t, r, Request{ID: 1, Blocks: chain(1, 5), Input: 20, Output: 1})
	drain(t, r)
	add(t, r, Request{ID: 2, Blocks: chain(1, 5), Input: 10, Output: 11})
	if got := r.Pending(); got != 2 {
		t.Errorf("%d tokens pending, want 2 of 10", got)
	}
}

// However blocks come and go while sequences wait, the backlog is what a look at
// every prompt's blocks makes it, and Match tells what a prompt is found to have.
func TestBacklogAgainstRecount(t *testing.T) {
	for _, tc := range []struct {
		name  string
		early bool
		store *Store
	}{
		{"memory alone", false, nil},
		{"memory alone, found early", true, nil},
		{"a store", false, NewStore(4*60, 4)},
		{"a store without limit", false, NewStore(0, 4)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(29, 31))
			cfg := Config{Costs: flat, KVTokens: 4 * 22, BlockSize: 4, MaxSeqs: 5, MaxBatchedTokens: 24, PublishEarly: tc.early, Store: tc.store}
			var pool []*Replica
			for range 2 {
				r, err := New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				pool = append(pool, r)
			}
			var ids, waits uint64
			for range 20_000 {
				r := pool[rng.IntN(2)]
				if rng.IntN(3) == 0 && r.waiting.length < 10 {
					ids++
					add(t, r, Request{ID: ids, Blocks: chain(uint64(rng.IntN(12)), rng.IntN(16)), Input: 1 + rng.IntN(60), Output: 1 + rng.IntN(12)})
				}
				if rng.IntN(20) == 0 {
					r.Abort(ids - min(ids, rng.Uint64N(10)))
				}
				var head *sequence
				want := 0
				if s := r.waiting.first; s != nil && len(r.running) == 0 {
					// Alone it is scheduled whatever its size; its neighbours'
					// evictions come later.
					head = s
					want = min(r.Match(s.Blocks[:min(len(s.Blocks), s.target()/4)]), s.target()-1)
				}
				var queued []*sequence
				for s := r.waiting.first; s != nil; s = s.next {
					queued = append(queued, s)
				}
				if _, ok := r.Begin(0); !ok {
					continue
				}
				for _, s := range queued {
					for i := 0; s.phase == running && i < s.computed/4; i++ {
						if !tc.early && !r.pool.index.has(s.blocks[i]) {
							t.Fatalf("block %d of those found is a copy of one in memory", i)
						}
					}
				}
				if head != nil && head.computed != want {
					t.Fatalf("%d tokens found, foretold were %d", head.computed, want)
				}
				recount(t, r)
				r.End(nil)
				for _, r := range pool {
					recount(t, r)
				}
				waits += uint64(r.waiting.length)
			}
			if s := pool[0].Stats(); s.Evictions == 0 || s.Preemptions == 0 || s.HitTokens == 0 || waits < 1000 {
				t.Fatalf("the run exercised too little: %d waits, %+v", waits, s)
			}
		})
	}
}

// recount compares the backlog with one that remembers nothing.
func recount(t *testing.T, r *Replica) {
	t.Helper()
	want := 0
	for _, s := range r.running {
		if s.generated == 0 {
			want += s.Input - s.computed
		}
	}
	for s := r.waiting.first; s != nil; s = s.next {
		if s.generated > 0 {
			continue
		}
		found := 0
		for _, id := range s.Blocks[:min(len(s.Blocks), s.Input/r.config.BlockSize)] {
			if _, ok := r.pool.index.get(id); !ok && (r.config.Store == nil || !r.config.Store.has(id)) {
				break
			}
			found += r.config.BlockSize
		}
		want += s.Input - min(found, s.Input-1)
	}
	if got := r.Pending(); got != want {
		t.Fatalf("%d tokens pending, counted %d", got, want)
	}
}
