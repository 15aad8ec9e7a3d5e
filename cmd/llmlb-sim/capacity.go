package main

import (
	"math"
	"sort"
	"sync"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/bound"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/report"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// Speeds are looked at on a grid, so that what is found does not depend on where
// the search begins: the multiples of the trace's rate are powers of gridStep.
const (
	gridStep = 1.005
	gridEnds = 1385 // a thousandth and a thousand times the rate
)

// goodShare is the share of the offered requests that must meet the SLO, in per
// cent.
const goodShare = 95

// searchRuns is how many runs a search takes, about.
const searchRuns = 8

// gridSpeed is in five digits: more would say nothing.
func gridSpeed(k int) float64 {
	x := math.Pow(gridStep, float64(k))
	digits := math.Pow(10, 4-math.Floor(math.Log10(x)))
	return math.Round(x*digits) / digits
}

// search finds the strategy's capacity for each seed.
func (r *runner) search(s strategy, capacity []*float64, errs []error) {
	// The first seed's is where the others' searches begin: little lies between them.
	first, err := r.find(s, 0, r.guess(), 32)
	if errs[0] = err; err != nil {
		return
	}
	capacity[0] = speedAt(first)
	var wait sync.WaitGroup
	for seed := 1; seed < r.seeds; seed++ {
		wait.Go(func() {
			k, err := r.find(s, seed, first, 4)
			capacity[seed], errs[seed] = speedAt(k), err
		})
	}
	wait.Wait()
}

// speedAt is the capacity at a place of the grid: 0 below it, for who is not good
// enough at any speed, and unknown at its end.
func speedAt(k int) *float64 {
	x := 0.0
	switch {
	case k >= gridEnds:
		return nil
	case k >= -gridEnds:
		x = gridSpeed(k)
	}
	return &x
}

// guess is where a good strategy may be.
func (r *runner) guess() int {
	best, _ := fastest(r.engines)
	x := 0.6 * bound.MaxRate(r.traces[0], best, len(r.engines))
	if math.IsInf(x, 1) || x <= 0 {
		return 0
	}
	return min(max(int(math.Round(math.Log(x)/math.Log(gridStep))), -gridEnds), gridEnds)
}

// find is where on the grid the strategy is just good enough.
func (r *runner) find(s strategy, seed, begin, stride int) (int, error) {
	runs := 0
	defer func() { r.progress.done(max(0, searchRuns-runs)) }()
	return edge(r.lowest(s, seed), begin, stride, func(k int) (bool, error) {
		worth := 0
		if runs < searchRuns-1 {
			runs++
			worth = 1
		}
		return r.good(s, seed, gridSpeed(k), worth)
	})
}

// lowest is the first place on the grid at which a run ends in our days.
func (r *runner) lowest(s strategy, seed int) int {
	return -gridEnds + sort.Search(2*gridEnds, func(i int) bool {
		return r.bearable(s, r.traces[seed], gridSpeed(i-gridEnds)) == nil
	})
}

// edge is the highest place on the grid that is good while the next one is not:
// found by strides from where it begins, which double until there is one of each,
// and then by halves. Near the edge more load may by chance do better than less;
// then this is one such place, and there may be others. It is gridEnds if all is
// good there, and below -gridEnds if nothing is. Nothing below lowest is tried.
func edge(lowest, begin, stride int, good func(int) (bool, error)) (int, error) {
	low, high := lowest-1, gridEnds+1 // good, and not; or off the grid
	for k := min(max(begin, lowest), gridEnds); high-low > 1; {
		ok, err := good(k)
		if err != nil {
			return 0, err
		}
		if ok {
			low = k
		} else {
			high = k
		}
		switch {
		case high > gridEnds:
			k = min(low+stride, gridEnds)
			stride *= 2
		case low < lowest:
			k = max(high-stride, lowest)
			stride *= 2
		default:
			k = low + (high-low)/2
		}
	}
	if low < lowest {
		return -gridEnds - 1, nil
	}
	return low, nil
}

// good says whether enough of the offered requests meet the SLO at that speed. The
// run ends as soon as that is certain.
func (r *runner) good(s strategy, seed int, speed float64, worth int) (bool, error) {
	var v *verdict
	_, err := r.run(s, seed, speed, worth, func(c *virtual.Config, t *trace.Trace) {
		v = newVerdict(t, r.slo, r.scaled(seed, speed))
		c.Ended = func(x *virtual.Record) bool { return v.ended(x) && r.ctx.Err() == nil }
	})
	if err != nil {
		return false, err
	}
	return v.met >= v.needed, nil
}

// verdict counts until it is certain whether enough requests meet the SLO.
type verdict struct {
	slo           report.SLO
	from          time.Duration
	needed, spare int
	met, missed   int
}

func newVerdict(t *trace.Trace, slo report.SLO, from time.Duration) *verdict {
	offered := 0
	for i := range t.Requests {
		if t.Requests[i].At >= from {
			offered++
		}
	}
	v := &verdict{slo: slo, from: from, needed: (offered*goodShare + 99) / 100}
	v.spare = offered - v.needed
	return v
}

// ended counts a request and reports whether others still matter.
func (v *verdict) ended(r *virtual.Record) bool {
	if r.Arrived < v.from {
		return true
	}
	if v.slo.Met(r) {
		v.met++
	} else {
		v.missed++
	}
	return v.met < v.needed && v.missed <= v.spare
}
