package llmlb

import (
	"math"
	"sync/atomic"
	"time"
)

// TTFTBounds are the bucket bounds, in seconds, of time-to-first-token
// histograms. They follow vLLM's from 10 ms up, so that both can share a
// dashboard.
var TTFTBounds = []float64{0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160}

// ITLBounds are those, in seconds, of the time between two tokens.
var ITLBounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10}

// Histogram counts durations, or other values, in fixed buckets. It is here, and
// not a Prometheus one, so that it lives with the Endpoint over reloads and is
// read only when metrics are scraped. Safe for concurrent use.
type Histogram struct {
	bounds  []float64
	buckets []atomic.Uint64 // one more than bounds: the last is +Inf
	sum     atomic.Uint64   // float64 bits
}

// NewHistogram returns an empty histogram over bounds, in seconds where it is of
// durations, which must be in rising order.
func NewHistogram(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, buckets: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) { h.observe(d.Seconds(), 1) }

// observe counts a value in the unit of the bounds, so many times.
func (h *Histogram) observe(s float64, times int) {
	i := 0
	for i < len(h.bounds) && s > h.bounds[i] {
		i++
	}
	h.buckets[i].Add(uint64(times))
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+s*float64(times))) {
			return
		}
	}
}

// Snapshot returns the count, the sum in the unit of the bounds and the cumulative
// buckets by upper bound, as Prometheus wants them.
func (h *Histogram) Snapshot() (count uint64, sum float64, cumulative map[float64]uint64) {
	cumulative = make(map[float64]uint64, len(h.bounds))
	for i, b := range h.bounds {
		count += h.buckets[i].Load()
		cumulative[b] = count
	}
	count += h.buckets[len(h.bounds)].Load()
	return count, math.Float64frombits(h.sum.Load()), cumulative
}
