package status

import (
	"math"
	"strconv"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// numbersOf are the numbers of one row that are plotted, NaN where not known.
func numbersOf(row *llmlb.EndpointStatus) [endpointSeries]float64 {
	return [endpointSeries]float64{
		seriesTTFT:   orNaN(row.TTFTMillis),
		seriesQueue:  orNaN(row.Waiting),
		seriesTokens: float64(row.PrefillTokens + row.OutputTokens),
		seriesKV:     orNaN(row.KVUsage),
		seriesSpeed:  orNaN(row.TokensPerSecond),
	}
}

// sum is what the rows of a pool come to: sums, and for the KV memory the mean and
// the highest, of those whose numbers are known. Times to first token are not among
// them: a mean of the latest ones would say nothing.
func sum(s *sight) [poolSeries]float64 {
	var total [poolSeries]float64
	for i := range total {
		total[i] = math.NaN()
	}
	kvs := 0
	for i := range s.Endpoints {
		n := numbersOf(&s.Endpoints[i])
		for _, k := range []int{seriesQueue, seriesTokens, seriesKV, seriesSpeed} {
			if !math.IsNaN(n[k]) {
				total[k] = orZero(total[k]) + n[k]
			}
		}
		if !math.IsNaN(n[seriesKV]) {
			kvs++
			total[seriesMaxKV] = max(orZero(total[seriesMaxKV]), n[seriesKV])
		}
	}
	total[seriesKV] /= float64(max(1, kvs))
	total[seriesLine] = float64(s.Queue.Calls)
	return total
}

func orNaN(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

func orZero(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// quantile reads the q-quantile, in milliseconds, off a histogram over
// llmlb.TTFTBounds, as Prometheus does: evenly spread within a bucket, and the
// highest bound where it lies over that. NaN when nothing was counted.
func quantile(buckets []uint64, q float64) float64 {
	all := uint64(0)
	for _, n := range buckets {
		all += n
	}
	if all == 0 {
		return math.NaN()
	}
	rank, below, low := q*float64(all), 0.0, 0.0
	for i, bound := range llmlb.TTFTBounds {
		if n := float64(buckets[i]); below+n >= rank && n > 0 {
			return 1000 * (low + (bound-low)*(rank-below)/n)
		}
		below += float64(buckets[i])
		low = bound
	}
	return 1000 * low
}

// appendSeries writes a ring as JSON, the oldest first, so that it ends with the
// step given. Four digits are more than a plot shows.
func appendSeries(b []byte, r *ring, last int64) []byte {
	b = append(b, '[')
	for n := last - steps + 1; n <= last; n++ {
		if n > last-steps+1 {
			b = append(b, ',')
		}
		b = appendPoint(b, r[(n%steps+steps)%steps])
	}
	return append(b, ']')
}

func appendPoint(b []byte, x float32) []byte {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, float64(x), 'g', 4, 32)
}

// appendAll writes several rings as one JSON object.
func appendAll(b []byte, rings []ring, last int64) []byte {
	b = append(b, '{')
	for i := range rings {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, seriesNames[i]), ':')
		b = appendSeries(b, &rings[i], last)
	}
	return append(b, '}')
}
