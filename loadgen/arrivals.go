package loadgen

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Rate is arrivals a second, From at the begin of a ramp and To at its end.
type Rate struct{ From, To float64 }

// ParseRate reads "8", or "2-20" for a ramp that does not begin at 0.
func ParseRate(text string) (Rate, error) {
	low, high, both := strings.Cut(text, "-")
	if !both {
		low, high = "0", low
	}
	var r Rate
	for _, part := range []struct {
		text string
		to   *float64
	}{{low, &r.From}, {high, &r.To}} {
		x, err := strconv.ParseFloat(strings.TrimSpace(part.text), 64)
		if err != nil || !(x >= 0) || x > maxRate {
			return Rate{}, fmt.Errorf("reading rate %q: have arrivals a second up to %d, or two of them as 2-20", text, maxRate)
		}
		*part.to = x
	}
	if r.To == 0 {
		return Rate{}, fmt.Errorf("reading rate %q: nothing would be sent", text)
	}
	return r, nil
}

func (r Rate) String() string {
	to := strconv.FormatFloat(r.To, 'g', -1, 64)
	if r.From > 0 {
		return strconv.FormatFloat(r.From, 'g', -1, 64) + "-" + to
	}
	return to
}

// UnmarshalJSON takes a number or what ParseRate reads.
func (r *Rate) UnmarshalJSON(raw []byte) (err error) {
	*r, err = ParseRate(strings.Trim(string(raw), `"`))
	return err
}

// MarshalJSON writes what UnmarshalJSON reads.
func (r Rate) MarshalJSON() ([]byte, error) {
	if r.From > 0 {
		return strconv.AppendQuote(nil, r.String()), nil
	}
	return []byte(r.String()), nil
}

// arrivals yields when requests arrive, since the begin: a Poisson process whose
// rate goes up in a straight line during the ramp and then stays, until the end.
func arrivals(r Rate, ramp, end time.Duration, rng *rand.Rand) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for sum := rng.ExpFloat64(); ; sum += rng.ExpFloat64() {
			at := r.when(sum, ramp.Seconds())
			if at >= end.Seconds() || !yield(time.Duration(at*float64(time.Second))) {
				return
			}
		}
	}
}

// when is the time in seconds until which n arrivals are expected: the inverse
// of the rate's integral.
func (r Rate) when(n, ramp float64) float64 {
	if ramp <= 0 {
		return n / r.To
	}
	whole := (r.From + r.To) / 2 * ramp
	if n >= whole {
		return ramp + (n-whole)/r.To
	}
	slope := (r.To - r.From) / ramp
	if slope == 0 {
		return n / r.To
	}
	// n = From·t + slope/2·t²
	return (math.Sqrt(r.From*r.From+2*slope*n) - r.From) / slope
}
