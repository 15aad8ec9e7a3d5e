package llmlb

import (
	"math"
	"time"
)

// errorRate is the share of the latest attempts at an endpoint that failed. Pure;
// under the pool's lock. The zero value is an endpoint without failures.
type errorRate struct {
	failed, all float64 // fading
	at          time.Time
}

const (
	// errorHalf is how long it takes for half of what happened to be forgotten.
	errorHalf = 30 * time.Second

	// errorPrior is how many successes are assumed: one failure out of one is
	// no rate.
	errorPrior = 2
)

func (r *errorRate) ended(now time.Time, o Outcome) {
	if o == ClientGone || o == Refused {
		return // says nothing about the server
	}
	keep := r.keep(now)
	r.failed, r.all, r.at = r.failed*keep, r.all*keep+1, now
	if o.Failed() {
		r.failed++
	}
}

func (r *errorRate) rate(now time.Time) float64 {
	if r.failed == 0 {
		return 0
	}
	keep := r.keep(now)
	return r.failed * keep / (r.all*keep + errorPrior)
}

func (r *errorRate) keep(now time.Time) float64 {
	return math.Exp2(-float64(max(0, now.Sub(r.at))) / float64(errorHalf))
}
