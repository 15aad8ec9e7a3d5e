package report

import (
	"math"
	"slices"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// SLO is what a request is to meet.
type SLO struct {
	// TTFT bounds the time to first token, TPOT the mean time per token after it.
	TTFT, TPOT time.Duration
}

// Met says whether the request was answered within the SLO. A refused one was not,
// nor was one that has not ended.
func (s SLO) Met(r *virtual.Record) bool {
	return Served(r) && r.TTFT() <= s.TTFT && r.TPOT() <= s.TPOT
}

// Served says whether the request has ended and was answered.
func Served(r *virtual.Record) bool { return !r.Refused && r.First > 0 && r.Last > 0 }

// Numbers are what one run of one strategy comes to.
type Numbers struct {
	// Requests is how many were offered, and Refused how many of them got no
	// answer.
	Requests int `json:"requests"`
	Refused  int `json:"refused"`

	// TTFT is the time to first token, E2E the time to the last, of those served,
	// in milliseconds since their arrival at the gateway.
	TTFT Spread `json:"ttft_ms"`
	E2E  Spread `json:"e2e_ms"`

	// TPOT is the mean time between the tokens of an answer, of those with two or
	// more, in milliseconds.
	TPOT Ends `json:"tpot_ms"`

	// HitRatio is the share of the prompt tokens of those served that the servers
	// had in their caches.
	HitRatio float64 `json:"hit_ratio"`

	// Goodput is the share of those offered that met the SLO.
	Goodput float64 `json:"goodput"`

	// Imbalance is the largest of the servers' shares of the prompt tokens that had
	// to be computed, divided by the mean share.
	Imbalance float64 `json:"imbalance"`

	// Preemptions is how often a server threw a request out for want of memory.
	Preemptions int `json:"preemptions"`
}

// Spread describes lengths of time in milliseconds.
type Spread struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

// Ends is the middle and the tail of lengths of time in milliseconds.
type Ends struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Measure computes the numbers of a run of so many servers.
func Measure(records []virtual.Record, servers int, slo SLO) Numbers {
	n := Numbers{Requests: len(records)}
	computed := make([]int, servers)
	var input, cached, all, good int
	for i := range records {
		r := &records[i]
		if slo.Met(r) {
			good++
		}
		if r.Refused {
			n.Refused++
		}
		n.Preemptions += r.Preemptions
		if !Served(r) {
			continue
		}
		input += r.Input
		cached += r.Cached
		if r.Server >= 0 && r.Server < servers {
			computed[r.Server] += r.Input - r.Cached
			all += r.Input - r.Cached
		}
	}
	s := newSeries(records)
	n.TTFT, n.E2E = s.ttft.spread(), s.e2e.spread()
	n.TPOT = Ends{P50: millis(s.tpot.quantile(0.50)), P99: millis(s.tpot.quantile(0.99))}
	n.HitRatio, n.Goodput = ratio(cached, input), ratio(good, len(records))
	if all > 0 {
		n.Imbalance = rounded(float64(slices.Max(computed)) * float64(servers) / float64(all))
	}
	return n
}

// series are the times of requests that were served.
type series struct{ ttft, tpot, e2e times }

func newSeries(records []virtual.Record) (s series) {
	for i := range records {
		r := &records[i]
		if !Served(r) {
			continue
		}
		s.ttft = append(s.ttft, r.TTFT())
		s.e2e = append(s.e2e, r.Last-r.Arrived)
		if r.Output > 1 {
			s.tpot = append(s.tpot, r.TPOT())
		}
	}
	slices.Sort(s.ttft)
	slices.Sort(s.tpot)
	slices.Sort(s.e2e)
	return s
}

// times are sorted.
type times []time.Duration

// quantile is the least of them that a share q of all do not exceed; 0 of none.
func (t times) quantile(q float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	// Whole per-milles, so that 0.99 of 100 is the 99th and not, by a rounding
	// error, the one after.
	rank := (int(math.Round(q*1000))*len(t) + 999) / 1000
	return t[min(max(rank, 1), len(t))-1]
}

func (t times) mean() time.Duration {
	if len(t) == 0 {
		return 0
	}
	var sum time.Duration
	for _, d := range t {
		sum += d
	}
	return sum / time.Duration(len(t))
}

func (t times) spread() Spread {
	return Spread{
		Mean: millis(t.mean()), P50: millis(t.quantile(0.50)),
		P90: millis(t.quantile(0.90)), P99: millis(t.quantile(0.99)),
	}
}

// millis is in milliseconds, to the microsecond.
func millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)/time.Microsecond) / 1000
}

func ratio(part, all int) float64 {
	if all == 0 {
		return 0
	}
	return rounded(float64(part) / float64(all))
}

// rounded is to five places: more would say nothing.
func rounded(x float64) float64 { return math.Round(x*1e5) / 1e5 }
