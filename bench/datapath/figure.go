package main

import "github.com/caddy-llmlb/caddy-llmlb/bench/stats"

// measure is what a figure tells.
type measure string

const (
	cpuRatio     measure = "CPU per request"
	rateRatio    measure = "throughput at saturation"
	pacedRatio   measure = "CPU per request, moderate load"
	addedP50     measure = "added latency p50"
	addedP99     measure = "added latency p99"
	addedFirst50 measure = "added time to first byte p50"
	addedFirst99 measure = "added time to first byte p99"
	addedRSS     measure = "added RSS per stream"
	eventRatio   measure = "CPU per event"
)

// kindOf tells how a measure comes from the two values of a pair, and how it reads.
var kindOf = map[measure]struct {
	ratio   bool   // else a difference
	unit    string // of the values
	scale   float64
	atLeast bool // an aim is a floor
}{
	cpuRatio:     {ratio: true, unit: "µs", scale: 1e6},
	rateRatio:    {ratio: true, unit: "/s", scale: 1, atLeast: true},
	pacedRatio:   {ratio: true, unit: "µs", scale: 1e6},
	addedP50:     {unit: "ms", scale: 1e3},
	addedP99:     {unit: "ms", scale: 1e3},
	addedFirst50: {unit: "ms", scale: 1e3},
	addedFirst99: {unit: "ms", scale: 1e3},
	addedRSS:     {unit: "KiB", scale: 1. / kib},
	eventRatio:   {ratio: true, unit: "µs", scale: 1e6},
}

// figure is one line of the result.
type figure struct {
	Workload string  `json:"workload"`
	Measure  measure `json:"measure"`
	System   string  `json:"system"`
	Against  string  `json:"against"`
	// What was measured, medians of System and of Against, in Unit.
	Value float64 `json:"value"`
	Base  float64 `json:"base"`
	Unit  string  `json:"unit"`
	// The median over the pairs, of Value / Base or of Value − Base, and the interval
	// that holds it with 95 %.
	Ratio  bool      `json:"ratio"`
	Median float64   `json:"median"`
	Low    float64   `json:"low"`
	High   float64   `json:"high"`
	Pairs  []float64 `json:"pairs"`
	Aim    *float64  `json:"aim,omitempty"`
	Met    verdict   `json:"met,omitempty"`
}

// verdict is what an interval says of an aim.
type verdict string

const (
	met    verdict = "yes"               // all of it meets the aim
	open   verdict = "within the spread" // the aim lies in it, and is not ruled out
	missed verdict = "no"                // none of it meets the aim
)

// judge compares an interval with an aim: a limit, or a floor.
func judge(low, high, aim float64, floor bool) verdict {
	if floor {
		low, high, aim = -high, -low, -aim
	}
	switch {
	case high <= aim:
		return met
	case low <= aim:
		return open
	default:
		return missed
	}
}

// seed of the bootstrap.
const seed = 8

// compare makes a figure of the values that two systems had in the same rounds, in
// seconds, bytes or requests per second.
func compare(w *workload, m measure, system, against string, value, base []float64) figure {
	k := kindOf[m]
	f := figure{Workload: w.name, Measure: m, System: system, Against: against, Unit: k.unit, Ratio: k.ratio}
	for i := range value {
		if k.ratio {
			f.Pairs = append(f.Pairs, value[i]/base[i])
		} else {
			f.Pairs = append(f.Pairs, (value[i]-base[i])*k.scale)
		}
	}
	f.Value, f.Base = stats.Median(value)*k.scale, stats.Median(base)*k.scale
	f.Median = stats.Median(f.Pairs)
	f.Low, f.High = stats.Interval(f.Pairs, seed)
	if a, ok := w.aims[m]; ok && system == ours && against == plain {
		limit := float64(a)
		f.Aim, f.Met = &limit, judge(f.Low, f.High, limit, k.atLeast)
	}
	return f
}
