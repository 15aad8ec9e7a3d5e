package stats

import (
	"math/rand/v2"
	"slices"
	"testing"
)

const seed = 1

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		list []float64
		want float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{7}, 7},
		{[]float64{3, 1, 2}, 2},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		given := slices.Clone(c.list)
		if got := Median(c.list); got != c.want {
			t.Errorf("the median of %v is %v, want %v", c.list, got, c.want)
		}
		if !slices.Equal(given, c.list) {
			t.Errorf("%v was put in another order: pairs must stay in that of the rounds", given)
		}
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(99 - i)
	}
	for _, c := range []struct{ q, want float64 }{{0, 0}, {0.5, 50}, {0.99, 99}, {1, 99}} {
		if got := Quantile(slices.Clone(hundred), c.q); got != c.want {
			t.Errorf("quantile %v of 0 to 99 is %v, want %v", c.q, got, c.want)
		}
	}
	if got := Quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing is %v", got)
	}
}

// The interval of a published table depends on the pairs alone.
func TestIntervalIsTheSameEachTime(t *testing.T) {
	list := []float64{1.1, 1.3, 0.9, 1.2, 1.05, 1.15, 1.0, 1.4, 1.12, 1.08, 1.11, 1.2, 0.97, 1.02, 1.3}
	low, high := Interval(list, seed)
	low2, high2 := Interval(list, seed)
	if low != low2 || high != high2 {
		t.Errorf("%v to %v, then %v to %v", low, high, low2, high2)
	}
	if m := Median(list); low >= m || high <= m {
		t.Errorf("%v to %v does not hold the median %v", low, high, m)
	}
	if low, high = Interval([]float64{2, 2, 2}, seed); low != 2 || high != 2 {
		t.Errorf("three times 2 gave %v to %v", low, high)
	}
}

// Of samples whose true median is known, nineteen of twenty intervals hold it.
func TestIntervalHoldsTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const trials = 100
	held := 0
	for range trials {
		list := make([]float64, 15)
		for i := range list {
			list[i] = 1 + 0.1*r.NormFloat64()
		}
		if low, high := Interval(list, seed); low <= 1 && 1 <= high {
			held++
		}
	}
	if share := float64(held) / trials; share < 0.88 {
		t.Errorf("%.3f of the intervals hold the median, want about 0.95", share)
	}
}
