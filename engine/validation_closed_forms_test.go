package engine

import (
	"math"
	"testing"
	"time"
)

// A request alone on an engine takes as long as its chunks and its decode steps
// do by the formula, from the first to the last token, with and without a
// prefix in the cache. It is the least time that any engine of this kind can
// need, so bounds for whole pools rest on it.
func TestSoloEndToEnd(t *testing.T) {
	for _, name := range PresetNames() {
		cfg, _ := Preset(name)
		for _, tc := range []struct{ cached, input, output int }{
			{0, 12_035, 343},
			{0, 1, 1},
			{0, 85_400, 30},
			{8000, 12_035, 343},
			{512, 30_000, 2},
			{4096, 4096, 10}, // all but one token of it
		} {
			r, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ids := chain(1, tc.cached/cfg.BlockSize)
			if tc.cached > 0 {
				add(t, r, Request{ID: 1, Blocks: ids, Input: tc.cached, Output: 1})
				drain(t, r)
			}
			add(t, r, Request{ID: 2, Blocks: ids, Input: tc.input, Output: tc.output})

			ttft, steps := 0.0, 0
			for done := min(tc.cached, tc.input-1); done < tc.input; steps++ {
				n := min(cfg.MaxBatchedTokens, tc.input-done)
				ttft += model(cfg.Costs, float64(n), 1, float64(done), [2]float64{float64(n), float64(done)})
				done += n
			}
			e2e := ttft
			for i := range tc.output - 1 {
				e2e += model(cfg.Costs, 1, 1, float64(tc.input+i))
				steps++
			}
			var now, first time.Duration
			for {
				st, ok := r.Begin(now)
				if !ok {
					break
				}
				now += st.Duration
				for _, e := range r.End(nil) {
					if e.First {
						first = now
					}
				}
			}
			// Each step is rounded to the nanosecond.
			if math.Abs(float64(first)-ttft*1e6) > float64(steps) || math.Abs(float64(now)-e2e*1e6) > float64(steps) {
				t.Errorf("%s, %+v: first token after %v and last after %v, want %.6f and %.6f ms", name, tc, first, now, ttft, e2e)
			}
		}
	}
}

// B clients that ask again as soon as they are answered get B tokens in each
// step of B sequences.
func TestClosedLoopThroughput(t *testing.T) {
	for _, name := range PresetNames() {
		cfg, _ := Preset(name)
		for _, b := range []int{1, 8, 64, 200} {
			r, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			const in, out = 16, 1200
			for id := range uint64(b) {
				add(t, r, Request{ID: id, Input: in, Output: out})
			}
			for r.Decoding() < b {
				r.Begin(0)
				r.End(nil)
			}
			tokens := 0
			var now time.Duration
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
			if math.Abs(got-want) > 0.002*want {
				t.Errorf("%s, %d clients: %.0f tokens/s, want %.0f", name, b, got, want)
			}
		}
	}
}
