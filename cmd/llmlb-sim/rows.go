package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/report"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// rows are the results of the strategies that were asked for, in their order.
func (r *runner) rows(results []outcome) []report.Row {
	list := r.needed()
	capacities := make([]*float64, len(list))
	var ideal, infinite *float64
	var others []*float64
	for i, s := range list {
		capacities[i] = middle(results[i].capacity)
		switch s.name {
		case idealName:
			ideal = capacities[i]
		case idealInfiniteName:
			infinite = capacities[i]
		default:
			others = append(others, capacities[i])
		}
	}
	idealGood, infiniteGood := yardstick(ideal, others), yardstick(infinite, others)
	rows := make([]report.Row, len(r.strategies))
	for i, s := range r.strategies {
		row := report.Row{
			Strategy: s.name, Oracle: s.oracle, Trace: r.name, Speed: r.speed, Gateways: r.gateways,
			ScrapeMS: float64(r.scrapeOf(s)) / float64(time.Millisecond), Seeds: r.seedsUsed(),
			Engine: r.engine, Servers: len(r.engines), Arrivals: r.arrivals().Seconds(),
			Numbers: report.Median(results[i].numbers),
		}
		if r.capacity {
			row.Capacity = &report.Capacity{
				Value: capacities[i], Seeds: results[i].capacity,
			}
			if idealGood {
				row.Ratio = share(capacities[i], ideal)
			}
			if infiniteGood {
				row.RatioInfinite = share(capacities[i], infinite)
			}
			row.Reason = reason(row.Capacity, ideal, infinite)
		}
		rows[i] = row
	}
	return rows
}

// middle is the median. One that is not known makes it unknown.
func middle(all []*float64) *float64 {
	values := make([]float64, 0, len(all))
	for _, x := range all {
		if x == nil {
			return nil
		}
		values = append(values, *x)
	}
	m := report.Middle(values)
	return &m
}

func share(x, of *float64) *float64 {
	if x == nil || of == nil || *of == 0 {
		return nil
	}
	s := math.Round(*x / *of * 1e4) / 1e4
	return &s
}

// beyondIdeal is how many times as much as an ideal pool a strategy may carry by
// chance, where the ideal one is what it is called.
const beyondIdeal = 1.05

// yardstick reports whether no strategy carries clearly more than an ideal pool. That
// places by first token alone: where it is bad for what comes after, to be told a part
// of it would mislead.
func yardstick(ideal *float64, others []*float64) bool {
	for _, x := range others {
		if ideal != nil && (x == nil || *x > beyondIdeal**ideal) {
			return false
		}
	}
	return true
}

// arrivals is how long requests came, at the speed of the run, of those measured.
func (r *runner) arrivals() time.Duration {
	var last time.Duration
	t := r.traces[0]
	for i := range t.Requests {
		if q := &t.Requests[i]; q.Follows == 0 {
			last = max(last, q.At)
		}
	}
	return time.Duration(float64(last-r.from[0]) / r.speed)
}

// reason says why a capacity or its ratio is not known or 0; nothing if both are.
func reason(c *report.Capacity, ideal, infinite *float64) string {
	anySpeed := fmt.Sprintf("%d %% of the requests meet the SLO even at %d times the trace's rate: the workload is too small, or the SLO too loose, to show what is too much: raise -requests or take fewer -replicas", goodShare, int(maxSpeed))
	switch {
	case c.Value == nil:
		return "not known, because " + anySpeed
	case *c.Value == 0:
		return fmt.Sprintf("0, because less than %d %% of the requests meet the SLO at any speed: too many miss it even when hardly any others are there; see -slo-ttft and -slo-tpot", goodShare)
	case ideal == nil || infinite == nil:
		return "its part of the ideal pool's is not known, because in an ideal pool " + anySpeed
	case *ideal == 0 || *infinite == 0:
		return "its part of the ideal pool's is not known, because an ideal pool's is 0"
	case c.Ratio == nil || c.RatioInfinite == nil:
		return "its part of the ideal pool's is not told, because a strategy carries more than an ideal pool here: that places by the earliest first token, whatever comes after"
	}
	return ""
}

// describe says in a line what was simulated.
func (o *options) describe(w *workload) string {
	t := w.traces[0]
	s := t.Stats()
	requests := fmt.Sprintf("%s: %d requests", w.name, s.Requests)
	if w.from[0] > 0 {
		requests += " with those that only fill caches"
	}
	parts := []string{
		requests,
		o.rate(s),
		fmt.Sprintf("%d servers (%s)", len(o.engines), o.engine),
	}
	if o.gateways > 1 {
		parts = append(parts, fmt.Sprintf("%d gateways", o.gateways))
	}
	parts = append(parts, fmt.Sprintf("SLO %v and %v a token", o.slo.TTFT, o.slo.TPOT))
	if o.seeds > 1 {
		parts = append(parts, fmt.Sprintf("median of %d seeds", o.seeds))
	}
	return strings.Join(parts, ", ")
}

// rate says how fast requests come; conversations are as fast as their answers.
func (o *options) rate(s trace.Stats) string {
	if s.Follow > 0 {
		return fmt.Sprintf("%d of which follow answers, at %g× the trace's rate", s.Follow, o.speed)
	}
	return fmt.Sprintf("%.2f/s at %g× the trace's rate", s.Rate*o.speed, o.speed)
}
