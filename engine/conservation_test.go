package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A client that leaves frees its memory at once, whatever its sequence is
// doing, and the others go on as if it had never been there.
func TestAbort(t *testing.T) {
	for _, stage := range []string{"waiting", "in the prefill step", "between chunks", "in a decode step", "between decodes", "preempted", "out of the batch budget"} {
		t.Run(stage, func(t *testing.T) {
			r := tiny(t, 12, 4, 8)
			add(t, r, Request{ID: 1, Input: 4, Output: 12})
			one(t, r)
			add(t, r, Request{ID: 2, Input: 12, Output: 6})
			inStep := false
			switch stage {
			case "waiting":
			case "in the prefill step":
				r.Begin(0)
				inStep = true
			case "between chunks":
				one(t, r)
			case "in a decode step":
				one(t, r)
				one(t, r)
				r.Begin(0)
				inStep = true
			case "between decodes":
				one(t, r)
				one(t, r)
			case "preempted":
				one(t, r)
				one(t, r)
				i := len(r.running) - 1
				r.preempt(r.running[i])
				r.running = r.running[:i]
			case "out of the batch budget":
				one(t, r)
				one(t, r)
				r.config.MaxBatchedTokens = 1
				r.Begin(0)
				inStep = true
			}
			if !r.Abort(2) {
				t.Fatal("sequence is unknown")
			}
			if r.Abort(2) {
				t.Error("sequence was aborted twice")
			}
			if inStep {
				for _, e := range r.End(nil) {
					if e.ID == 2 {
						t.Errorf("token for an aborted sequence: %+v", e)
					}
				}
			}
			checkMemory(t, r)
			if s := r.Stats(); s.Running != 1 || s.Waiting != 0 || s.ReferencedBlocks > 4 {
				t.Errorf("after the abort: %+v", s)
			}
			add(t, r, Request{ID: 2, Input: 3, Output: 1}) // its id is free again
			last := 0
			for _, e := range drain(t, r) {
				if e.ID == 1 {
					last = e.Generated
				}
			}
			if last != 12 {
				t.Errorf("the other sequence ended at token %d of 12", last)
			}
		})
	}
}

// Whatever comes, goes and is aborted, blocks and tokens add up after every
// step, each sequence gets its tokens in order, and the same input gives the
// same run.
func TestConservation(t *testing.T) {
	run := func(early bool) (Stats, []Event) {
		rng := rand.New(rand.NewPCG(7, 11))
		r, err := New(Config{Costs: flat, KVTokens: 4 * 40, BlockSize: 4, MaxSeqs: 6, MaxBatchedTokens: 24, PublishEarly: early})
		if err != nil {
			t.Fatal(err)
		}
		type want struct{ in, out, got int }
		open := map[uint64]*want{}
		var order []uint64
		var all []Event
		var finished, aborted, next uint64
		var tokens int64
		for round := 0; round < 3000 || len(open) > 0; round++ {
			if round < 3000 && rng.IntN(4) == 0 {
				w := &want{in: 1 + rng.IntN(60), out: 1 + rng.IntN(30)}
				next++
				add(t, r, Request{ID: next, Blocks: chain(uint64(rng.IntN(5)), rng.IntN(20)), Input: w.in, Output: w.out})
				open[next] = w
				order = append(order, next)
			}
			if _, ok := r.Begin(time.Duration(round)); !ok {
				continue
			}
			if rng.IntN(12) == 0 {
				id := order[rng.IntN(len(order))]
				if r.Abort(id) {
					delete(open, id)
					aborted++
				}
			}
			from := len(all)
			all = r.End(all)
			for _, e := range all[from:] {
				w := open[e.ID]
				w.got++
				if e.Generated != w.got || e.Finished != (w.got == w.out) || e.First != (w.got == 1) || e.Cached >= w.in {
					t.Fatalf("event %+v for %+v", e, w)
				}
				if e.Finished {
					delete(open, e.ID)
					finished++
					tokens += int64(w.in + w.out - 1)
				}
			}
			checkMemory(t, r)
			s := r.Stats()
			held := s.LostTokens + tokens
			for _, q := range r.running {
				held += int64(q.computed)
			}
			if have := s.ReusedTokens + s.PrefillTokens + s.DecodeTokens; have != held {
				t.Fatalf("round %d: %d tokens reused or computed, %d accounted for", round, have, held)
			}
		}
		s := r.Stats()
		if finished+aborted != next || s.Preemptions == 0 || s.Evictions == 0 || aborted == 0 || s.HitTokens == 0 {
			t.Fatalf("the run exercised too little: %d of %d finished, %d aborted, %+v", finished, next, aborted, s)
		}
		return s, all
	}
	for _, early := range []bool{false, true} {
		s1, e1 := run(early)
		s2, e2 := run(early)
		if s1 != s2 || !slices.Equal(e1, e2) {
			t.Errorf("early=%v: two runs of the same input differ", early)
		}
	}
}
