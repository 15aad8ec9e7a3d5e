package engine

import (
	"math"
	"math/rand/v2"
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

// B clients that ask again at once get B tokens per step of B sequences.
func TestClosedLoopThroughput(t *testing.T) {
	cfg, _ := Preset("8b-h100")
	for _, b := range []int{1, 8, 64, 200} {
		r, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		const in, out = 16, 1200
		for id := range uint64(b) {
			add(t, r, Request{ID: id, Input: in, Output: out})
		}
		one(t, r)
		var now time.Duration
		tokens := 0
		var ev []Event
		for {
			st, ok := r.Begin(now)
			if !ok {
				break
			}
			now += st.Duration
			ev = r.End(ev[:0])
			tokens += len(ev)
		}
		mean := in + float64(out-2)/2
		want := float64(b) / model(cfg.Costs, float64(b), float64(b), float64(b)*mean) * 1000
		got := float64(tokens) / now.Seconds()
		if math.Abs(got-want) > 0.001*want {
			t.Errorf("%d clients: %.0f tokens/s, want %.0f", b, got, want)
		}
	}
}

// With one sequence at a time and work proportional to the prompt the engine
// is an M/G/1 queue, and the mean time in it is what Pollaczek and Khinchine
// say it is.
func TestMG1(t *testing.T) {
	const perToken = 0.01 // ms
	for _, tc := range []struct {
		name      string
		rho       float64
		size      func(*rand.Rand) int
		tolerance float64
	}{
		{"M/D/1 at 0.5", 0.5, func(*rand.Rand) int { return 1000 }, 0.03},
		{"M/D/1 at 0.7", 0.7, func(*rand.Rand) int { return 1000 }, 0.03},
		{"M/M/1 at 0.5", 0.5, exponential, 0.03},
		{"M/M/1 at 0.7", 0.7, exponential, 0.03},
		{"M/M/1 at 0.9", 0.9, exponential, 0.08},
		{"two sizes at 0.7", 0.7, func(r *rand.Rand) int {
			if r.IntN(10) == 0 {
				return 5000
			}
			return 200
		}, 0.03},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := New(Config{
				Costs:    Costs{Token: perToken},
				KVTokens: 1 << 16, BlockSize: 16, MaxSeqs: 1, MaxBatchedTokens: 1 << 16,
			})
			if err != nil {
				t.Fatal(err)
			}
			const jobs = 200_000
			sizes := make([]int, jobs)
			rng := rand.New(rand.NewPCG(1, 2))
			var sum, squares float64
			for i := range sizes {
				sizes[i] = tc.size(rng)
				s := float64(sizes[i]) * perToken * 1e6
				sum += s
				squares += s * s
			}
			mean := sum / jobs
			rate := tc.rho / mean
			want := mean + rate*(squares/jobs)/(2*(1-tc.rho))

			arrivals := make([]time.Duration, jobs)
			at := 0.0
			for i := range arrivals {
				at += rng.ExpFloat64() / rate
				arrivals[i] = time.Duration(at)
			}
			got := replay(t, r, arrivals, sizes)
			if math.Abs(got-want) > tc.tolerance*want {
				t.Errorf("mean time in the system %.2f ms, want %.2f ms", got/1e6, want/1e6)
			}
		})
	}
}

func exponential(r *rand.Rand) int { return max(1, int(math.Round(min(r.ExpFloat64()*1000, 60_000)))) }

// replay runs jobs of one output token and returns the mean time from arrival
// to that token, in nanoseconds. At equal times a step ends before a job
// arrives.
func replay(t *testing.T, r *Replica, arrivals []time.Duration, sizes []int) float64 {
	t.Helper()
	var now, total time.Duration
	var ev []Event
	next, served := 0, 0
	for served < len(arrivals) {
		for next < len(arrivals) && arrivals[next] <= now {
			if err := r.Add(arrivals[next], Request{ID: uint64(next), Input: sizes[next], Output: 1}); err != nil {
				t.Fatal(err)
			}
			next++
		}
		st, ok := r.Begin(now)
		if !ok {
			now = arrivals[next]
			continue
		}
		now += st.Duration
		ev = r.End(ev[:0])
		for _, e := range ev {
			total += now - e.Arrived
			served++
		}
	}
	return float64(total) / float64(len(arrivals))
}
