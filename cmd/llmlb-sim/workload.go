package main

import (
	"context"
	"errors"
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
func (o *options) load(ctx context.Context) (*workload, error) {
	w := &workload{from: make([]time.Duration, o.seeds)}
	for i, seed := range o.seedsUsed() {
		if ctx.Err() != nil {
			return nil, errInterrupted
		}
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
			if bytes := kept(t) * float64(o.seeds); i == 0 && o.seeds > 1 && bytes > maxKept {
				return nil, usageError{fmt.Errorf("the workloads of -seeds %d would take %.1f GiB; the limit is %d GiB: fewer seeds, or fewer -requests", o.seeds, bytes/(1<<30), maxKept>>30)}
			}
		case i == 0:
			t, err := trace.Open(o.trace, trace.Options{Format: o.format})
			if err != nil {
				return nil, o.hint(err)
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
			if bytes := float64(len(t.Requests)) * requestBytes * float64(o.seeds); bytes > maxKept {
				return nil, usageError{fmt.Errorf("-dither with -seeds %d would take %.1f GiB; the limit is %d GiB: fewer seeds, or a part of the trace with -first", o.seeds, bytes/(1<<30), maxKept>>30)}
			}
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

// hint adds what -format would have to be.
func (o *options) hint(err error) error {
	wrong, ok := errors.AsType[*trace.FormatError](err)
	if !ok || wrong.Looks == "" || wrong.Asked == "" {
		return err
	}
	return fmt.Errorf("%w: use -format %s, or leave -format out", err, wrong.Looks)
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
