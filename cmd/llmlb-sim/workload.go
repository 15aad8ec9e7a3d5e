package main

import (
	"fmt"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/bound"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/report"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// workload is what is replayed: for each seed a trace at its own rate.
type workload struct {
	name   string
	traces []*trace.Trace
	from   []time.Duration // what arrives before only fills caches, and is not measured
}

// load reads the trace or makes one up.
func (o *options) load() (*workload, error) {
	w := &workload{from: make([]time.Duration, o.seeds)}
	for i, seed := range o.seedsUsed() {
		switch {
		case o.trace == "":
			t, warm, err := o.gen.make(seed)
			if err != nil {
				return nil, usageError{fmt.Errorf("-gen %s: %w", o.gen.name, err)}
			}
			w.traces = append(w.traces, t)
			if warm > 0 {
				w.from[i] = t.Requests[warm].At
			}
		case i == 0:
			t, err := trace.Open(o.trace, trace.Options{Format: o.format})
			if err != nil {
				return nil, err
			}
			w.traces = append(w.traces, t)
		default:
			w.traces = append(w.traces, w.traces[0])
		}
	}
	for i, seed := range o.seedsUsed() {
		t := w.traces[i]
		if o.first > 0 {
			t = t.First(o.first)
		}
		if o.dither > 0 {
			t = t.Dither(o.dither, seed)
		}
		if n := len(t.Requests); n == 0 || t.Requests[n-1].At < w.from[i] {
			return nil, usageError{fmt.Errorf("-first %v leaves nothing to measure", o.first)}
		}
		w.traces[i] = t
	}
	w.name = w.traces[0].Name
	return w, nil
}

// bounds are those of the first seed's trace, at the speed it is replayed at.
func (o *options) bounds(w *workload) report.Bounds {
	t := w.traces[0].Speed(o.speed)
	best, alike := fastest(o.engines)
	b := report.Bounds{
		MeanTTFT:  bound.LowerMeanTTFT(t, best, len(o.engines)) + o.overhead,
		Hits:      bound.Hits(t),
		PooledLRU: bound.PooledLRU(t, memory(o.engines)),
		Load:      bound.LoadFactor(t, best, len(o.engines)),
	}
	switch {
	case w.from[0] > 0:
		b.Note = "count the requests that only fill caches, too"
	case !alike:
		b.Note = "take all servers to be as good as the best in each respect"
	}
	return b
}
