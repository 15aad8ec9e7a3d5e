package loadgen

import (
	"math"
	"testing"
	"time"
)

// What is told of a million is within a hundredth of the truth.
func TestPercentiles(t *testing.T) {
	for _, tc := range []struct {
		name string
		of   []time.Duration
		want map[float64]time.Duration
	}{
		{"one", []time.Duration{time.Second}, map[float64]time.Duration{0.5: time.Second, 0.99: time.Second}},
		{"ten", steps(10, time.Second), map[float64]time.Duration{0.5: 5 * time.Second, 0.9: 9 * time.Second, 0.91: 10 * time.Second, 0.99: 10 * time.Second}},
		{"a thousand", steps(1000, time.Millisecond), map[float64]time.Duration{0.5: 500 * time.Millisecond, 0.95: 950 * time.Millisecond, 0.99: 990 * time.Millisecond}},
		{"an hour among milliseconds", append(steps(99, time.Millisecond), time.Hour), map[float64]time.Duration{0.5: 50 * time.Millisecond, 0.99: 99 * time.Millisecond, 1: time.Hour}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h histogram
			for _, d := range tc.of {
				h.add(d)
			}
			for q, want := range tc.want {
				got, ok := h.quantile(q)
				if !ok || math.Abs(float64(got)/float64(want)-1) > 0.006 {
					t.Errorf("p%v is %v, expected %v", 100*q, got, want)
				}
			}
			if h.max != tc.of[len(tc.of)-1] {
				t.Errorf("the largest is %v", h.max)
			}
		})
	}
}

func steps(n int, step time.Duration) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = time.Duration(i+1) * step
	}
	return out
}

// Nothing measured is not zero.
func TestNoPercentileOfNothing(t *testing.T) {
	var h histogram
	if _, ok := h.quantile(0.5); ok || h.spread() != nil {
		t.Error("an empty histogram has a median")
	}
	h.add(0)
	if s := h.spread(); s == nil || s.P50 != 0 || s.Max != 0 {
		t.Errorf("tokens that came together are %+v apart", s)
	}
}

func TestHistogramIsBounded(t *testing.T) {
	var h histogram
	h.add(-time.Second) // a clock that was set back
	h.add(1000 * time.Hour)
	if len(h.buckets) > most {
		t.Errorf("%d buckets", len(h.buckets))
	}
	if d, _ := h.quantile(0.5); d != 0 {
		t.Errorf("the median is %v", d)
	}
}
