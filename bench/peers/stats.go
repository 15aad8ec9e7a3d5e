package main

import "github.com/caddy-llmlb/caddy-llmlb/bench/stats"

// ratio is the median of ratios in paired rounds, with a 95 % interval.
type ratio struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// ratioOf compares a with b, round by round.
func ratioOf(a, b []float64, seed uint64) ratio {
	quotients := make([]float64, len(a))
	for i := range a {
		quotients[i] = a[i] / b[i]
	}
	low, high := stats.Interval(quotients, seed)
	return ratio{Median: stats.Median(quotients), Low: low, High: high}
}

// column returns one number of each sample.
func column(samples []sample, of func(sample) float64) []float64 {
	list := make([]float64, len(samples))
	for i, s := range samples {
		list[i] = of(s)
	}
	return list
}
