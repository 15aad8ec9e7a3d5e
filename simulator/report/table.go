package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// unknown stands for a number that nobody knows: never 0.
const unknown = "–"

// Bounds are what no router can beat, and what a very good one might reach.
type Bounds struct {
	// MeanTTFT is a lower bound of the mean time to first token.
	MeanTTFT time.Duration

	// Hits is the hit ratio of an unlimited memory, PooledLRU that of one cache as
	// large as all the servers' (which is no bound).
	Hits, PooledLRU float64

	// Load is the least share of their time that the servers must work to keep up;
	// 0 if it is not known.
	Load float64

	// Note says under which condition they hold, where that is not obvious.
	Note string
}

// WriteTable writes the rows for people, the best first, and the bounds below.
func WriteTable(w io.Writer, rows []Row, bounds Bounds) error {
	rows = Best(rows)
	heads, cells := table(rows)
	var b strings.Builder
	align(&b, append([][]string{heads}, cells...))
	b.WriteByte('\n')
	for _, line := range slices.Concat(unsteady(rows), beyond(rows, bounds), reasons(rows), bounds.lines()) {
		fmt.Fprintf(&b, "%s\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table is what stands in the table, the same on the page.
func table(rows []Row) (heads []string, cells [][]string) {
	heads = []string{"strategy", "ttft mean", "p50", "p90", "p99", "tpot p50", "p99", "e2e mean", "p99", "hit", "goodput", "refused"}
	capacity := false
	for i := range rows {
		capacity = capacity || rows[i].Capacity != nil
	}
	if capacity {
		heads = append(heads, "capacity", "of ideal", "of infinite")
	}
	for i := range rows {
		r := &rows[i]
		line := []string{
			r.Strategy,
			inTime(r.TTFT.Mean), inTime(r.TTFT.P50), inTime(r.TTFT.P90), inTime(r.TTFT.P99),
			inTime(r.TPOT.P50), inTime(r.TPOT.P99), inTime(r.E2E.Mean), inTime(r.E2E.P99),
			percent(r.HitRatio), percent(r.Goodput), strconv.Itoa(r.Refused),
		}
		if served(r) == 0 {
			for k := 1; k < 10; k++ {
				line[k] = unknown
			}
		}
		if capacity {
			c := r.Capacity
			if c == nil {
				c = new(Capacity)
			}
			line = append(line, number(c.Value, "×"), number(c.Ratio, ""), number(c.RatioInfinite, ""))
		}
		cells = append(cells, line)
	}
	return heads, cells
}

// reasons say why capacities are not known or 0: a line for all that have the same
// one.
func reasons(rows []Row) []string {
	var names, told []string
	for i := range rows {
		c := rows[i].Capacity
		if c == nil || c.Reason == "" {
			continue
		}
		if k := slices.Index(told, c.Reason); k >= 0 {
			names[k] += ", " + rows[i].Strategy
			continue
		}
		names, told = append(names, rows[i].Strategy), append(told, c.Reason)
	}
	for i := range told {
		told[i] = "capacity of " + names[i] + ": " + told[i]
	}
	return told
}

// steadyAnswers is how many mean answers arrivals must span for numbers to be those of
// a pool at work, and not of one that fills or empties.
const steadyAnswers = 3

// unsteady says so where arrivals end before the load is steady: at the speed of the
// run, or at one at which a capacity was found.
func unsteady(rows []Row) []string {
	span, answer, speed := math.Inf(1), math.Inf(1), 0.0
	capacity := false
	for i := range rows {
		r := &rows[i]
		if served(r) == 0 || r.Arrivals <= 0 {
			continue
		}
		answer = min(answer, r.E2E.Mean/1000)
		s, at := r.Arrivals, r.Speed
		if c := r.Capacity; c != nil {
			capacity = true
			if c.Value != nil && *c.Value > r.Speed {
				s, at = r.Arrivals*r.Speed / *c.Value, *c.Value
			}
		}
		if s < span {
			span, speed = s, at
		}
	}
	if math.IsInf(span, 1) || span >= steadyAnswers*answer {
		return nil
	}
	where, what := "", "these numbers mean"
	if capacity {
		what = "capacity means"
	}
	if r := &rows[0]; speed > r.Speed {
		where = fmt.Sprintf("at %.4g times the rate ", speed)
	}
	return []string{fmt.Sprintf("%sarrivals span %s, an answer takes %s on average: the load is never steady, and %s little; raise -requests, or take a longer trace",
		where, inTime(1000*span), inTime(1000*answer), what)}
}

// beyondLoad is how many times what the servers can do a capacity may be by chance and
// by what is done after the last arrival.
const beyondLoad = 1.05

// beyond tells of capacities at which more came than the servers can do: no pool bears
// that for long.
func beyond(rows []Row, b Bounds) []string {
	var names []string
	for i := range rows {
		r := &rows[i]
		if c := r.Capacity; c != nil && c.Value != nil && r.Speed > 0 && b.Load**c.Value/r.Speed > beyondLoad {
			names = append(names, r.Strategy)
		}
	}
	if names == nil {
		return nil
	}
	return []string{fmt.Sprintf("capacity of %s: more than the servers can do, which is %.3f× (at a rho_min of 1): the load is over before the pool is full; raise -requests, or take a longer trace",
		strings.Join(names, ", "), rows[0].Speed/b.Load)}
}

func (b Bounds) lines() []string {
	load := unknown
	if b.Load > 0 {
		load = strconv.FormatFloat(b.Load, 'f', 3, 64)
	}
	lines := []string{
		"no router has a mean TTFT below " + inTime(millis(b.MeanTTFT)),
		fmt.Sprintf("hit ratio of one LRU cache as large as all together: %s; of unlimited memory: %s", percent(b.PooledLRU), percent(b.Hits)),
		fmt.Sprintf("rho_min, the least load of the servers: %s", load),
	}
	if b.Note != "" {
		lines = append(lines, "these bounds "+b.Note)
	}
	return lines
}

// align writes columns, the first to the left and all others to the right.
func align(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case i > 0:
				b.WriteString("  " + gap + cell)
			default:
				b.WriteString(cell + gap)
			}
		}
		b.WriteByte('\n')
	}
}

// inTime writes milliseconds with about three digits.
func inTime(ms float64) string {
	switch {
	case ms >= 99_950:
		return strconv.FormatFloat(ms/1000, 'f', 0, 64) + "s"
	case ms >= 9_995:
		return strconv.FormatFloat(ms/1000, 'f', 1, 64) + "s"
	case ms >= 1_000:
		return strconv.FormatFloat(ms/1000, 'f', 2, 64) + "s"
	case ms >= 99.95:
		return strconv.FormatFloat(ms, 'f', 0, 64) + "ms"
	}
	return strconv.FormatFloat(ms, 'f', 1, 64) + "ms"
}

func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) + "%" }

func number(x *float64, unit string) string {
	if x == nil {
		return unknown
	}
	return strconv.FormatFloat(*x, 'f', 3, 64) + unit
}
