package engine

import (
	"math"
	"testing"
	"time"
)

// model is the documented formula in plain floating point, in milliseconds.
func model(c Costs, tokens, sequences, context float64, chunks ...[2]float64) float64 {
	ms := c.Base + max(c.Floor, c.Weights+c.Token*tokens) + c.Context*context + c.Sequence*sequences
	for _, ch := range chunks {
		n, before := ch[0], ch[1]
		ms += c.Pair * n * (before + n/2)
	}
	return ms
}

func near(t *testing.T, what string, got time.Duration, wantMS float64) {
	t.Helper()
	if diff := math.Abs(float64(got) - wantMS*1e6); diff > 1 {
		t.Errorf("%s took %v, want %.6f ms", what, got, wantMS)
	}
}

// Alone on an idle engine, the time to first token and the time of each later
// token follow the formula to the nanosecond, chunk by chunk.
func TestSoloClosedForm(t *testing.T) {
	for _, name := range PresetNames() {
		cfg, ok := Preset(name)
		if !ok {
			t.Fatalf("no preset %q", name)
		}
		c := cfg.Costs
		for _, in := range []int{1, 100, 2048, 8192, 8193, 20_000, 100_001} {
			r, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			add(t, r, Request{ID: 1, Input: in, Output: 3})
			budget := cfg.MaxBatchedTokens
			want := 0.0
			steps := 0
			for done := 0; done < in; steps++ {
				n := min(budget, in-done)
				want += model(c, float64(n), 1, float64(done), [2]float64{float64(n), float64(done)})
				done += n
			}
			var ttft time.Duration
			for i := range steps {
				st, ok := r.Begin(ttft)
				if !ok {
					t.Fatal("nothing to do")
				}
				ttft += st.Duration
				ev := r.End(nil)
				if last := i == steps-1; len(ev) == 1 != last {
					t.Fatalf("%s, %d tokens: first token after step %d of %d", name, in, i+1, steps)
				}
			}
			if diff := math.Abs(float64(ttft) - want*1e6); diff > float64(steps) {
				t.Errorf("%s: %d tokens took %v to the first token, want %.6f ms", name, in, ttft, want)
			}
			for i := range 2 {
				st, _ := r.Begin(0)
				r.End(nil)
				near(t, name+" decode", st.Duration, model(c, 1, 1, float64(in+i)))
			}
		}
	}
}

// Cached tokens cost neither linear layers nor queries, but are still read.
func TestCachedPrefillClosedForm(t *testing.T) {
	cfg, _ := Preset("8b-h100")
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	add(t, r, Request{ID: 1, Blocks: chain(1, 256), Input: 4096, Output: 1})
	drain(t, r)
	add(t, r, Request{ID: 2, Blocks: chain(1, 256), Input: 4096 + 1000, Output: 1})
	st, _ := r.Begin(0)
	r.End(nil)
	near(t, "a warm prompt", st.Duration, model(cfg.Costs, 1000, 1, 4096, [2]float64{1000, 4096}))
}

// A prompt whose last chunk is one token long pays for that token's attention
// as for any other prompt token; a decode does not.
func TestOneTokenChunkClosedForm(t *testing.T) {
	cfg, _ := Preset("8b-h100")
	cfg.MaxBatchedTokens = 1000
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	add(t, r, Request{ID: 1, Input: 1001, Output: 2})
	one(t, r)
	st, _ := one(t, r)
	near(t, "the last chunk", st.Duration, model(cfg.Costs, 1, 1, 1000, [2]float64{1, 1000}))
	st, _ = one(t, r)
	near(t, "the decode", st.Duration, model(cfg.Costs, 1, 1, 1001))
}

// A prefill chunk and decodes that share a step are charged together.
func TestMixedStepClosedForm(t *testing.T) {
	cfg, _ := Preset("70b-h100x4")
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	add(t, r, Request{ID: 1, Input: 500, Output: 9})
	add(t, r, Request{ID: 2, Input: 700, Output: 9})
	one(t, r)
	add(t, r, Request{ID: 3, Input: 3000, Output: 1})
	st, _ := one(t, r)
	near(t, "the mixed step", st.Duration, model(cfg.Costs, 3002, 3, 1200, [2]float64{3000, 0}))
}

// Published solo figures for a rough check that the table was copied right.
func TestPresetsAreInTheRightRegion(t *testing.T) {
	for _, tc := range []struct {
		preset string
		input  int
		ms     float64
	}{
		{"8b-a100", 2048, 151},
		{"8b-a100", 8192, 676},
		{"8b-h100", 2048, 52},
		{"8b-h100", 8192, 241},
	} {
		cfg, _ := Preset(tc.preset)
		cfg.MaxBatchedTokens = 8192 // the figures are for prompts in one piece
		r, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		add(t, r, Request{ID: 1, Input: tc.input, Output: 1})
		var ttft time.Duration
		for {
			st, ok := r.Begin(ttft)
			if !ok {
				break
			}
			ttft += st.Duration
			r.End(nil)
		}
		if got := float64(ttft) / 1e6; math.Abs(got-tc.ms) > 0.03*tc.ms {
			t.Errorf("%s: %d tokens in %.1f ms, published %.0f ms", tc.preset, tc.input, got, tc.ms)
		}
	}
	if _, ok := Preset("9000b-abacus"); ok {
		t.Error("a preset that does not exist was found")
	}
}
