package engine

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// flat costs make a step's time easy to predict: one millisecond, whatever is
// in it.
var flat = Costs{Base: 1}

// tiny is an engine with few blocks of 4 tokens.
func tiny(t testing.TB, blocks, maxSeqs, budget int) *Replica {
	t.Helper()
	r, err := New(Config{Costs: flat, KVTokens: 4 * blocks, BlockSize: 4, MaxSeqs: maxSeqs, MaxBatchedTokens: budget})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func add(t testing.TB, r *Replica, req Request) {
	t.Helper()
	if err := r.Add(0, req); err != nil {
		t.Fatal(err)
	}
}

// one runs a single step and returns its events.
func one(t testing.TB, r *Replica) (Step, []Event) {
	t.Helper()
	st, ok := r.Begin(0)
	if !ok {
		t.Fatal("nothing to do")
	}
	events := r.End(nil)
	checkMemory(t, r)
	return st, events
}

// drain runs until nothing is left and returns all events.
func drain(t testing.TB, r *Replica) []Event {
	t.Helper()
	var events []Event
	for steps := 0; ; steps++ {
		if _, ok := r.Begin(0); !ok {
			break
		}
		events = r.End(events)
		checkMemory(t, r)
		if steps > 100_000 {
			t.Fatal("does not come to an end")
		}
	}
	if s := r.Stats(); s.Running+s.Waiting+s.ReferencedBlocks != 0 {
		t.Fatalf("idle engine still holds %+v", s)
	}
	return events
}

// checkMemory counts every block from scratch.
func checkMemory(t testing.TB, r *Replica) {
	t.Helper()
	s := r.Stats()
	if s.FreeBlocks+s.IdleBlocks+s.ReferencedBlocks != s.TotalBlocks {
		t.Fatalf("blocks do not add up: %+v", s)
	}
	refs := make([]int32, len(r.pool.blocks))
	for _, q := range r.running {
		for _, b := range q.blocks {
			refs[b]++
		}
	}
	listed := 0
	for i := r.pool.head; i != none; i = r.pool.blocks[i].next {
		listed++
		if b := r.pool.blocks[i]; b.refs != 0 || !r.pool.index.has(i) {
			t.Fatalf("block %d is listed as idle: %+v", i, b)
		}
	}
	if listed != s.IdleBlocks {
		t.Fatalf("%d blocks in the idle list, %d counted", listed, s.IdleBlocks)
	}
	held := 0
	for i, b := range r.pool.blocks {
		if b.refs != refs[i] {
			t.Fatalf("block %d has %d references, sequences hold %d", i, b.refs, refs[i])
		}
		if b.refs > 0 {
			held++
		}
		if !r.pool.index.has(int32(i)) {
			continue
		}
		if j, ok := r.pool.index.get(r.pool.index.entries[i].id); !ok || j != int32(i) {
			t.Fatalf("block %d cannot be found by its id", i)
		}
	}
	if held != s.ReferencedBlocks {
		t.Fatalf("%d blocks held, %d counted", held, s.ReferencedBlocks)
	}
}

// A long prompt is computed in chunks of the step's budget, while sequences
// that decode keep getting their token first.
func TestChunkedPrefill(t *testing.T) {
	r := tiny(t, 64, 4, 10)
	add(t, r, Request{ID: 1, Input: 4, Output: 9})
	one(t, r)
	add(t, r, Request{ID: 2, Input: 25, Output: 1})
	for i, want := range []int{9, 9, 7} {
		st, ev := one(t, r)
		if st.PrefillTokens != want || st.DecodeTokens != 1 {
			t.Fatalf("step %d: %+v, want a chunk of %d beside one decode", i, st, want)
		}
		if last := i == 2; len(ev) != 1 && !last || last && (len(ev) != 2 || !ev[1].First || !ev[1].Finished) {
			t.Fatalf("step %d: events %+v", i, ev)
		}
	}
	drain(t, r)
}

// When decoding runs out of memory, the newest sequence gives way, comes back
// first, and still delivers every token exactly once.
func TestPreemption(t *testing.T) {
	r := tiny(t, 6, 4, 64)
	add(t, r, Request{ID: 1, Input: 8, Output: 9})
	add(t, r, Request{ID: 2, Input: 8, Output: 9})
	add(t, r, Request{ID: 3, Input: 8, Output: 2})
	_, ev := one(t, r)
	if len(ev) != 3 {
		t.Fatalf("first step served %d sequences, want 3", len(ev))
	}
	_, ev = one(t, r)
	// Sequence 1 needs a third block: 3, the newest, goes. 2 takes the other
	// block that 3 gave back.
	if len(ev) != 2 || ev[0].ID != 1 || ev[1].ID != 2 {
		t.Fatalf("second step: %+v, want sequences 1 and 2", ev)
	}
	if r.waiting.first.ID != 3 || r.Stats().Preemptions != 1 {
		t.Fatalf("waiting %+v after %d preemptions", r.waiting.first, r.Stats().Preemptions)
	}
	add(t, r, Request{ID: 4, Input: 4, Output: 1})
	var order []uint64
	tokens := map[uint64]int{1: 2, 2: 2, 3: 1}
	for _, e := range drain(t, r) {
		tokens[e.ID]++
		if e.Generated != tokens[e.ID] {
			t.Fatalf("sequence %d: token %d came as number %d", e.ID, tokens[e.ID], e.Generated)
		}
		if e.Finished {
			order = append(order, e.ID)
		}
		if e.ID == 3 && e.First {
			t.Error("a preempted sequence had a second first token")
		}
	}
	if want := (map[uint64]int{1: 9, 2: 9, 3: 2, 4: 1}); !reflect.DeepEqual(tokens, want) {
		t.Errorf("tokens %v, want %v", tokens, want)
	}
	// Later 2 had to give way to 1 as well, and went before 3 in the queue.
	if want := []uint64{1, 2, 3, 4}; !slices.Equal(order, want) {
		t.Errorf("finished in order %v, want %v", order, want)
	}
}

// Memory that a preemption set free is not given out again in the same step.
func TestNoAdmissionAfterPreemption(t *testing.T) {
	r := tiny(t, 6, 4, 64)
	add(t, r, Request{ID: 1, Input: 8, Output: 3})
	add(t, r, Request{ID: 2, Input: 16, Output: 2})
	one(t, r)
	r.config.MaxBatchedTokens = 4 // a small chunk of 2 would fit at once
	if st, ev := one(t, r); st.Sequences != 1 || len(ev) != 1 || ev[0].ID != 1 {
		t.Errorf("%+v with events %+v, want sequence 1 alone", st, ev)
	}
	if st, _ := one(t, r); st.Sequences != 2 {
		t.Errorf("%+v, want the preempted sequence back", st)
	}
	drain(t, r)
}

// A head of the queue that does not fit holds back smaller ones behind it.
func TestHeadOfLine(t *testing.T) {
	r := tiny(t, 4, 4, 64)
	add(t, r, Request{ID: 1, Input: 8, Output: 5})
	add(t, r, Request{ID: 2, Input: 12, Output: 1})
	add(t, r, Request{ID: 3, Input: 1, Output: 1})
	if _, ev := one(t, r); len(ev) != 1 || ev[0].ID != 1 {
		t.Fatalf("first step: %+v, want sequence 1 alone", ev)
	}
	if s := r.Stats(); s.Waiting != 2 || s.KVUsage() != 0.5 {
		t.Fatalf("%+v, want two waiting at half the memory", s)
	}
	drain(t, r)
}

// max_num_seqs bounds the batch.
func TestMaxSeqs(t *testing.T) {
	r := tiny(t, 64, 2, 64)
	for id := range uint64(5) {
		add(t, r, Request{ID: id, Input: 4, Output: 3})
	}
	for range 3 {
		if st, _ := one(t, r); st.Sequences != 2 {
			t.Fatalf("%d sequences ran, want 2", st.Sequences)
		}
	}
	drain(t, r)
}

func TestAddRefuses(t *testing.T) {
	r := tiny(t, 4, 4, 64)
	add(t, r, Request{ID: 1, Input: 1, Output: 16}) // 16 tokens in memory: fits exactly
	for _, tc := range []struct {
		req   Request
		never bool
		text  string
	}{
		{Request{ID: 2, Input: 1, Output: 17}, true, "longer than the kv memory"},
		{Request{ID: 2, Input: 17, Output: 1}, true, "longer than the kv memory"},
		{Request{ID: 2, Input: 3, Output: int(^uint(0) >> 1)}, true, "longer than the kv memory"},
		{Request{ID: 2, Input: 0, Output: 1}, false, "at least 1"},
		{Request{ID: 2, Input: 1, Output: 0}, false, "at least 1"},
		{Request{ID: 1, Input: 1, Output: 1}, false, "in use"},
	} {
		err := r.Add(0, tc.req)
		if err == nil || !strings.Contains(err.Error(), tc.text) || errors.Is(err, ErrNeverFits) != tc.never {
			t.Errorf("adding %+v: %v", tc.req, err)
		}
	}
	if ev := drain(t, r); len(ev) != 16 {
		t.Errorf("%d tokens, want 16", len(ev))
	}
	add(t, r, Request{ID: 1, Input: 1, Output: 1}) // free again
}

func TestNewRefuses(t *testing.T) {
	good := Config{Costs: flat, KVTokens: 64, BlockSize: 4, MaxSeqs: 1, MaxBatchedTokens: 8}
	for _, tc := range []struct {
		change func(*Config)
		text   string
	}{
		{func(c *Config) { c.KVTokens = 0 }, "kv tokens of 0"},
		{func(c *Config) { c.KVTokens = 3 }, "hold no block"},
		{func(c *Config) { c.BlockSize = -1 }, "block size of -1"},
		{func(c *Config) { c.MaxSeqs = 0 }, "max sequences of 0"},
		{func(c *Config) { c.MaxBatchedTokens = 1 << 40 }, "max batched tokens"},
		{func(c *Config) { c.Costs.Token = -1 }, "token of -1 ms"},
		{func(c *Config) { c.Costs.Context = 1e5 }, "slowest step"},
	} {
		c := good
		tc.change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("got %v, want an error with %q", err, tc.text)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

// Times in events are the caller's own.
func TestEventTimes(t *testing.T) {
	r := tiny(t, 16, 1, 64)
	for id, at := range []time.Duration{3, 5} {
		if err := r.Add(at, Request{ID: uint64(id), Input: 2, Output: 1}); err != nil {
			t.Fatal(err)
		}
	}
	r.Begin(10)
	r.End(nil)
	r.Begin(20)
	if ev := r.End(nil); ev[0].Arrived != 5 || ev[0].Scheduled != 20 {
		t.Errorf("%+v, want arrival at 5 and a start at 20", ev[0])
	}
}

func TestMisuse(t *testing.T) {
	for name, f := range map[string]func(*Replica){
		"Begin": func(r *Replica) { r.Begin(0); r.Begin(0) },
		"End":   func(r *Replica) { r.End(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("misuse went unnoticed")
				}
			}()
			r := tiny(t, 4, 1, 8)
			add(t, r, Request{ID: 1, Input: 1, Output: 1})
			f(r)
		})
	}
}
