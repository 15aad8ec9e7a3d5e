package report

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"slices"
)

// Row is one strategy's result.
type Row struct {
	// Strategy is its name, and Oracle says that it was shown what is true rather
	// than what a gateway knows.
	Strategy string `json:"strategy"`
	Oracle   bool   `json:"oracle"`

	// Trace is the name of the workload, Speed how many times faster than in the
	// trace requests came, Gateways how many shared them, and ScrapeMS the
	// milliseconds between two scrapes.
	Trace    string  `json:"trace"`
	Speed    float64 `json:"speed"`
	Gateways int     `json:"gateways"`
	ScrapeMS float64 `json:"scrape_ms"`

	// Engine is what the servers are, and Servers how many there are.
	Engine  string `json:"engine"`
	Servers int    `json:"servers"`

	// Arrivals is for how many seconds requests came, of the first seed. Of requests
	// that follow answers that is not known: it goes by the others.
	Arrivals float64 `json:"arrivals_s"`

	// Seeds are those of the runs. Of several, each number is the median.
	Seeds []uint64 `json:"seeds"`

	Numbers

	// HitRatioPooledLRU is the hit ratio of one cache as large as all the servers'.
	HitRatioPooledLRU float64 `json:"hit_ratio_pooled_lru"`

	// HitRatioBound and MeanTTFTBound are what no router beats, the latter in
	// milliseconds, and RhoMin is the least load of the servers; 0 if not known.
	HitRatioBound float64 `json:"hit_ratio_bound"`
	MeanTTFTBound float64 `json:"ttft_mean_bound_ms"`
	RhoMin        float64 `json:"rho_min"`

	// Capacity is there if it was asked for.
	*Capacity
}

// Bound writes the bounds into all rows.
func Bound(rows []Row, b Bounds) {
	for i := range rows {
		r := &rows[i]
		r.HitRatioPooledLRU, r.HitRatioBound = rounded(b.PooledLRU), rounded(b.Hits)
		r.MeanTTFTBound, r.RhoMin = millis(b.MeanTTFT), rounded(b.Load)
	}
}

// Capacity is how much load a strategy carries. What is not known is nil, and
// Reason says why.
type Capacity struct {
	// Value is the highest multiple of the trace's own rate at which 95 % of the
	// offered requests meet the SLO: 0 if there is none, and nil if they do at any
	// that was tried.
	Value *float64 `json:"capacity"`

	// Ratio and RatioInfinite divide it by that of the ideal pool, whose servers
	// share one store of prefixes as large as all their caches, or one without
	// limit.
	Ratio         *float64 `json:"capacity_ratio"`
	RatioInfinite *float64 `json:"capacity_ratio_infinite"`

	// Seeds are the capacities of each seed, in the seeds' order.
	Seeds []*float64 `json:"capacity_by_seed"`

	// Reason says why something of the above is not known or is 0; else it is "".
	Reason string `json:"capacity_reason,omitempty"`
}

// Median is what of several runs' numbers is in the middle, each number by itself;
// of an even count the lower of two.
func Median(all []Numbers) Numbers {
	mid := func(of func(*Numbers) float64) float64 {
		values := make([]float64, len(all))
		for i := range all {
			values[i] = of(&all[i])
		}
		return Middle(values)
	}
	spread := func(of func(*Numbers) *Spread) Spread {
		return Spread{
			Mean: mid(func(n *Numbers) float64 { return of(n).Mean }),
			P50:  mid(func(n *Numbers) float64 { return of(n).P50 }),
			P90:  mid(func(n *Numbers) float64 { return of(n).P90 }),
			P99:  mid(func(n *Numbers) float64 { return of(n).P99 }),
		}
	}
	return Numbers{
		Requests:    int(mid(func(n *Numbers) float64 { return float64(n.Requests) })),
		Refused:     int(mid(func(n *Numbers) float64 { return float64(n.Refused) })),
		Preemptions: int(mid(func(n *Numbers) float64 { return float64(n.Preemptions) })),
		TTFT:        spread(func(n *Numbers) *Spread { return &n.TTFT }),
		E2E:         spread(func(n *Numbers) *Spread { return &n.E2E }),
		TPOT: Ends{
			P50: mid(func(n *Numbers) float64 { return n.TPOT.P50 }),
			P99: mid(func(n *Numbers) float64 { return n.TPOT.P99 }),
		},
		HitRatio:  mid(func(n *Numbers) float64 { return n.HitRatio }),
		Goodput:   mid(func(n *Numbers) float64 { return n.Goodput }),
		Imbalance: mid(func(n *Numbers) float64 { return n.Imbalance }),
	}
}

// Middle is the median; of an even count the lower of two, and of none 0.
func Middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// WriteJSON writes the rows as an array of objects, in the order they are in.
func WriteJSON(w io.Writer, rows []Row) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if rows == nil {
		rows = []Row{}
	}
	return e.Encode(rows)
}

// Best is the rows with the best first: by capacity where it was asked for, and by
// mean time to first token. Rows alike stay in their order.
func Best(rows []Row) []Row {
	sorted := slices.Clone(rows)
	capacity := func(r *Row) float64 {
		switch {
		case r.Capacity == nil:
			return -1
		case r.Value == nil:
			return math.Inf(1) // no load that was tried was too much
		}
		return *r.Value
	}
	slices.SortStableFunc(sorted, func(a, b Row) int {
		return cmp.Or(
			cmp.Compare(capacity(&b), capacity(&a)),
			// Who answers nobody has no latency, and is not the best for it.
			cmp.Compare(served(&b), served(&a)),
			cmp.Compare(a.TTFT.Mean, b.TTFT.Mean),
		)
	})
	return sorted
}

func served(r *Row) int {
	if r.Requests > r.Refused {
		return 1
	}
	return 0
}
