package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Vidur's authors publish the curves of a run of their own simulator: Llama-3-8B
// on one A100, the prompt and answer lengths of Azure's conversations, 512
// requests that arrive at random at 6.45 a second, chunks of 512 tokens, at most
// 512 sequences. The figures here were read off a picture, the run's random
// numbers are not known, and at nine tenths of capacity what becomes of 512
// requests depends on them a lot. So this is a check of the order of magnitude:
// each figure has to lie within the range of 20 runs, and within a factor of the
// run in the middle. The prices of attention in 8b-a100 were chosen with this
// very picture in view, which makes the check weaker still.
func TestVidurCurves(t *testing.T) {
	trace := recorded(t, "azure2023_conv_60min.csv.gz")
	const runs = 20
	var got [8][]float64
	for seed := range uint64(runs) {
		for i, x := range vidurRun(t, trace, seed) {
			got[i] = append(got[i], x)
		}
	}
	for i, tc := range []struct {
		name      string
		published float64
		within    float64
	}{
		{"ttft p50, s", 0.77, 1.7},
		{"ttft p90, s", 1.65, 1.7},
		{"ttft p99, s", 2.7, 1.7},
		{"tpot p50, ms", 46.5, 1.25},
		{"tpot p90, ms", 52.5, 1.25},
		{"e2e p50, s", 7, 1.3},
		{"e2e p90, s", 20, 1.3},
		{"batch p50", 56, 1.5},
	} {
		x := got[i]
		slices.Sort(x)
		middle := x[runs/2]
		t.Logf("%-12s published %6.2f, here %6.2f (%.2f to %.2f)", tc.name, tc.published, middle, x[0], x[runs-1])
		if tc.published < x[0] || tc.published > x[runs-1] {
			t.Errorf("%s: published %.2f, not within %.2f and %.2f", tc.name, tc.published, x[0], x[runs-1])
		}
		if middle > tc.published*tc.within || middle < tc.published/tc.within {
			t.Errorf("%s: %.2f, published %.2f, more than a factor of %.2f apart", tc.name, middle, tc.published, tc.within)
		}
	}
}

// vidurRun replays 512 requests with lengths drawn from the trace.
func vidurRun(t *testing.T, trace []lengths, seed uint64) [8]float64 {
	t.Helper()
	cfg, _ := Preset("8b-a100")
	cfg.MaxBatchedTokens, cfg.MaxSeqs = 512, 512
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 37))
	const requests = 512
	at := make([]time.Duration, requests)
	sizes := make([]lengths, requests)
	for i := range at {
		at[i] = at[max(i-1, 0)] + time.Duration(rng.ExpFloat64()*float64(time.Second)/6.45)
		sizes[i] = trace[rng.IntN(len(trace))]
	}
	first := make([]time.Duration, requests)
	var ttft, tpot, e2e, batch []float64
	var now time.Duration
	var ev []Event
	for next := 0; len(e2e) < requests; {
		for ; next < requests && at[next] <= now; next++ {
			l := sizes[next]
			if err := r.Add(at[next], Request{ID: uint64(next), Input: l.input, Output: max(1, l.output)}); err != nil {
				t.Fatal(err)
			}
		}
		st, ok := r.Begin(now)
		if !ok {
			now = at[next]
			continue
		}
		batch = append(batch, float64(st.Sequences))
		now += st.Duration
		ev = r.End(ev[:0])
		for _, e := range ev {
			if e.First {
				first[e.ID] = now
				ttft = append(ttft, (now - at[e.ID]).Seconds())
			}
			if e.Finished {
				e2e = append(e2e, (now - at[e.ID]).Seconds())
				if e.Generated > 1 {
					tpot = append(tpot, (now-first[e.ID]).Seconds()*1000/float64(e.Generated-1))
				}
			}
		}
	}
	quantile := func(x []float64, q float64) float64 {
		slices.Sort(x)
		return x[int(q*float64(len(x)-1))]
	}
	return [8]float64{
		quantile(ttft, 0.5), quantile(ttft, 0.9), quantile(ttft, 0.99),
		quantile(tpot, 0.5), quantile(tpot, 0.9),
		quantile(e2e, 0.5), quantile(e2e, 0.9),
		quantile(batch, 0.5),
	}
}
