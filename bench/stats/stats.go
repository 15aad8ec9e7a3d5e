// Package stats makes figures of values that were measured in turns: what is compared
// is measured in the same short time, so that what the machine does meanwhile falls on
// both. It is pure, and knows nothing of what was measured.
//
// The benchmarks below bench call it. Nothing here survives anything.
package stats

import (
	"math/rand/v2"
	"slices"
)

// Median returns the middle of the values, the mean of the two middle ones of an
// even number, and 0 of none.
func Median(list []float64) float64 {
	s := slices.Sorted(slices.Values(list))
	n := len(s)
	switch {
	case n == 0:
		return 0
	case n%2 == 0:
		return (s[n/2-1] + s[n/2]) / 2
	default:
		return s[n/2]
	}
}

// Quantile returns the value below which a share q of the values lies, the nearest
// of them, and 0 of none. It puts them in order.
func Quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(len(list)-1, int(q*float64(len(list))))]
}

// resamples is how often the bootstrap draws.
const resamples = 10000

// Interval bounds the median of which the values are a sample with 95 %: it draws
// as many of them as there are, with replacement, and takes what lies between the
// 2.5th and the 97.5th hundredth of the medians of such draws. The same values and
// the same seed give the same interval.
func Interval(list []float64, seed uint64) (low, high float64) {
	if len(list) == 0 {
		return 0, 0
	}
	r := rand.New(rand.NewPCG(seed, 95))
	medians := make([]float64, resamples)
	draw := make([]float64, len(list))
	for i := range medians {
		for j := range draw {
			draw[j] = list[r.IntN(len(list))]
		}
		medians[i] = Median(draw)
	}
	return Quantile(medians, 0.025), Quantile(medians, 0.975)
}
