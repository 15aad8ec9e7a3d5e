package engine

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// The mocker of NVIDIA Dynamo plays an engine of the same make with two
// polynomials for time: one in the new prompt tokens of a step, one in the share
// of the KV memory in use. With these in place of the usual costs, its blocks of
// 64 tokens and its limits, what an engine does can be worked out by hand.

func mockerPrefill(n int) float64 {
	x := float64(n)
	return 16.50142 + 0.01518344*x + 4.209989e-7*x*x
}

func mockerDecode(used float64) float64 {
	return 5.74 + 54.01*used - 25.74*used*used
}

// mockerTime charges a step for its prompt tokens, if there are any, and for its
// decodes, if there are any, at least a millisecond.
func mockerTime(l Load) time.Duration {
	ms := 0.0
	if l.PrefillTokens > 0 {
		ms += mockerPrefill(l.PrefillTokens)
	}
	if l.DecodeTokens > 0 {
		ms += mockerDecode(float64(l.HeldTokens) / float64(l.KVTokens))
	}
	return time.Duration(math.Round(max(1, ms) * 1e6))
}

func mocker(t testing.TB, blocks int) *Replica {
	t.Helper()
	r, err := New(Config{StepTime: mockerTime, KVTokens: 64 * blocks, BlockSize: 64, MaxSeqs: 256, MaxBatchedTokens: 8192})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Worked out with pencil and paper.
func TestMockerPolynomials(t *testing.T) {
	for _, tc := range []struct {
		load Load
		ms   float64
	}{
		{Load{PrefillTokens: 2048}, 49.36},
		{Load{PrefillTokens: 8192}, 169.14},
		{Load{DecodeTokens: 1, KVTokens: 64}, 5.74},
		{Load{DecodeTokens: 1, HeldTokens: 32, KVTokens: 64}, 26.31},
		{Load{DecodeTokens: 1, HeldTokens: 64, KVTokens: 64}, 34.01},
		{Load{PrefillTokens: 640, DecodeTokens: 1, KVTokens: 64}, 32.13},
		{Load{}, 1},
	} {
		if got := mockerTime(tc.load).Seconds() * 1000; math.Abs(got-tc.ms) > 0.01 {
			t.Errorf("%+v takes %.2f ms, want %.2f ms", tc.load, got, tc.ms)
		}
	}
}

// A prompt in two chunks, then decodes in a memory of which a known share is in
// use.
func TestMockerTimes(t *testing.T) {
	r := mocker(t, 16_384)
	add(t, r, Request{ID: 1, Input: 10_000, Output: 3})
	// 157 blocks hold 10,048 tokens, so that both decodes find room in them.
	used := 157.0 / 16_384
	for i, want := range []float64{mockerPrefill(8192), mockerPrefill(1808), mockerDecode(used), mockerDecode(used)} {
		st, _ := one(t, r)
		near(t, fmt.Sprintf("step %d", i), st.Duration, want)
	}
	// A prompt and a decode in one step.
	add(t, r, Request{ID: 2, Input: 64, Output: 2})
	one(t, r)
	add(t, r, Request{ID: 3, Input: 640, Output: 1})
	st, _ := one(t, r)
	near(t, "a mixed step", st.Duration, mockerPrefill(640)+mockerDecode(12.0/16_384))
}

// All of a repeated prompt is found but its last token, and a block that is not
// full is not found at all.
func TestMockerHits(t *testing.T) {
	for _, tc := range []struct {
		name        string
		input, want int
	}{
		{"the same four blocks", 256, 255},
		{"and one token", 257, 256},
		{"three blocks and a half", 224, 192},
		{"less than a block", 63, 0},
	} {
		r := mocker(t, 64)
		add(t, r, Request{ID: 1, Blocks: chain(1, 4), Input: 256, Output: 1})
		drain(t, r)
		add(t, r, Request{ID: 2, Blocks: chain(1, 4), Input: tc.input, Output: 1})
		st, ev := one(t, r)
		if ev[0].Cached != tc.want {
			t.Errorf("%s: %d tokens found, want %d", tc.name, ev[0].Cached, tc.want)
		}
		near(t, tc.name, st.Duration, mockerPrefill(tc.input-tc.want))
	}
}

// Three sequences of one block in a memory of four. After 64 tokens each needs a
// second block and there is one left: the first takes it, the second takes that
// of the third, which came last and so goes first. It comes back when one of the
// others is done, computes its 65 tokens again in one step, and ends last.
func TestMockerPreemption(t *testing.T) {
	r := mocker(t, 4)
	for id := range uint64(3) {
		add(t, r, Request{ID: id + 1, Input: 63, Output: 5 - int(id)})
	}
	type row struct {
		prefill, decode int
		ms              float64
		finished        []uint64
	}
	for i, want := range []row{
		{189, 0, mockerPrefill(189), nil},
		{0, 3, mockerDecode(3.0 / 4), nil},   // 64 tokens in memory
		{0, 2, mockerDecode(1), nil},         // the third gives way
		{0, 2, mockerDecode(1), []uint64{2}}, // 2 has its four tokens
		{65, 1, mockerPrefill(65) + mockerDecode(1), []uint64{1, 3}},
	} {
		st, ev := one(t, r)
		var finished []uint64
		for _, e := range ev {
			if e.Finished {
				finished = append(finished, e.ID)
			}
		}
		if st.PrefillTokens != want.prefill || st.DecodeTokens != want.decode || !slices.Equal(finished, want.finished) {
			t.Fatalf("step %d: %+v finished %v, want %+v", i, st, finished, want)
		}
		near(t, fmt.Sprintf("step %d", i), st.Duration, want.ms)
	}
	if s := r.Stats(); s.Preemptions != 1 || s.Running+s.Waiting != 0 {
		t.Errorf("%+v, want one preemption and nothing left", s)
	}
}

// Two prompts of three blocks fill a memory of six. Two new blocks take the
// place of the older prompt's last two: its head is found, its tail is not, and
// the younger prompt is whole.
func TestMockerEviction(t *testing.T) {
	r := mocker(t, 6)
	for id := range uint64(2) {
		add(t, r, Request{ID: id, Blocks: chain(id, 3), Input: 192, Output: 1})
		drain(t, r)
	}
	add(t, r, Request{ID: 2, Blocks: chain(2, 2), Input: 128, Output: 1})
	drain(t, r)
	for id, want := range []int{64, 192, 128} {
		if got := r.Match(chain(uint64(id), 3)); got != want {
			t.Errorf("prompt %d: %d tokens are left, want %d", id, got, want)
		}
	}
}
