package loadgen

import (
	"math"
	"time"
)

// histogram counts durations in buckets that grow by 1 % each, so that its memory
// is bounded and a percentile is off by half of that at most. The largest is kept
// as it is. The zero value is ready.
type histogram struct {
	buckets []uint32 // as far as there was need
	n       int
	sum     time.Duration
	max     time.Duration
}

const (
	smallest = 10 * time.Microsecond // all below is one bucket
	growth   = 1.01
	most     = 2000 // buckets, which reach beyond an hour
)

func (h *histogram) add(d time.Duration) {
	d = max(0, d)
	i := bucketOf(d)
	for len(h.buckets) <= i {
		h.buckets = append(h.buckets, 0)
	}
	h.buckets[i]++
	h.n++
	h.sum += d
	h.max = max(h.max, d)
}

func bucketOf(d time.Duration) int {
	if d < smallest {
		return 0
	}
	return min(most-1, 1+int(math.Log(float64(d)/float64(smallest))/math.Log(growth)))
}

// middle is the duration that stands for a bucket.
func middle(i int) time.Duration {
	if i == 0 {
		return 0
	}
	return time.Duration(float64(smallest) * math.Pow(growth, float64(i)-0.5))
}

// quantile is the duration that the share q of all is not above: the nearest
// rank. ok is false when there is none.
func (h *histogram) quantile(q float64) (d time.Duration, ok bool) {
	if h.n == 0 {
		return 0, false
	}
	rank := max(1, int(math.Ceil(q*float64(h.n)-1e-9)))
	if rank >= h.n {
		return h.max, true
	}
	seen := 0
	for i, n := range h.buckets {
		if seen += int(n); seen >= rank {
			return min(middle(i), h.max), true
		}
	}
	return h.max, true
}

// Spread is how long something took.
type Spread struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// spread is nil when there is nothing to tell.
func (h *histogram) spread() *Spread {
	if h.n == 0 {
		return nil
	}
	at := func(q float64) float64 {
		d, _ := h.quantile(q)
		return millis(d)
	}
	return &Spread{
		Count: h.n, Mean: millis(h.sum / time.Duration(h.n)),
		P50: at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), Max: millis(h.max),
	}
}

// millis is d in milliseconds, to a hundredth.
func millis(d time.Duration) float64 {
	return math.Round(float64(d)/float64(10*time.Microsecond)) / 100
}
