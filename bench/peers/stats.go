package main

import (
	"math/rand/v2"
	"slices"
)

// ratio is the median of ratios in paired rounds, with a 95 % interval.
type ratio struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

const resamples = 2000

// ratioOf compares a with b, round by round. The interval is the percentile
// bootstrap's.
func ratioOf(a, b []float64, seed uint64) ratio {
	pairs := make([]float64, len(a))
	for i := range a {
		pairs[i] = a[i] / b[i]
	}
	random := rand.New(rand.NewPCG(seed, uint64(len(a))))
	medians, drawn := make([]float64, resamples), make([]float64, len(pairs))
	for i := range medians {
		for k := range drawn {
			drawn[k] = pairs[random.IntN(len(pairs))]
		}
		medians[i] = median(drawn)
	}
	slices.Sort(medians)
	return ratio{Median: median(pairs), Low: medians[resamples/40], High: medians[resamples-1-resamples/40]}
}

// median of a list that has something in it.
func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// column returns one number of each sample.
func column(samples []sample, of func(sample) float64) []float64 {
	list := make([]float64, len(samples))
	for i, s := range samples {
		list[i] = of(s)
	}
	return list
}
