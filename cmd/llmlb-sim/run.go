package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/report"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

var errInterrupted = errors.New("interrupted")

// runner carries out runs, as many at a time as there are processors.
type runner struct {
	*options
	*workload
	ctx      context.Context
	slots    chan struct{}
	progress *progress
}

// outcome is what came of one strategy.
type outcome struct {
	numbers  []report.Numbers // by seed
	capacity []*float64       // by seed
	curves   report.Curves    // of the first seed
}

func simulate(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	if o.cpuprofile != "" {
		f, err := os.Create(o.cpuprofile) //nolint:gosec // the file that its user names
		if err != nil {
			return fmt.Errorf("writing -cpuprofile: %w", err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("writing -cpuprofile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	w, err := o.load()
	if err != nil {
		return err
	}
	r := &runner{options: o, workload: w, ctx: ctx, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	r.progress = newProgress(stderr, o.quiet)
	results, err := r.all()
	r.progress.stop()
	if err != nil {
		return err
	}
	rows := r.rows(results)
	bounds := o.bounds(w)
	report.Bound(rows, bounds)
	if o.html != "" {
		if err := r.writePage(rows, results, bounds); err != nil {
			return err
		}
	}
	if o.json {
		return report.WriteJSON(stdout, rows)
	}
	fmt.Fprintf(stdout, "%s\n\n", o.describe(w))
	return report.WriteTable(stdout, rows, bounds)
}

// needed are the strategies to run: those asked for, and what capacity is measured
// against.
func (r *runner) needed() []strategy {
	list := append([]strategy(nil), r.strategies...)
	if !r.capacity {
		return list
	}
	for _, name := range []string{idealName, idealInfiniteName} {
		known := false
		for _, s := range list {
			known = known || s.name == name
		}
		if !known {
			s, _ := strategyOf(name)
			list = append(list, s)
		}
	}
	return list
}

// all runs everything. What is returned is in the order of needed.
func (r *runner) all() ([]outcome, error) {
	list := r.needed()
	results := make([]outcome, len(list))
	r.progress.expect(len(r.strategies) * r.seeds)
	if r.capacity {
		r.progress.expect(len(list) * r.seeds * searchRuns)
	}
	errs := make([]error, 2*r.seeds*len(list)) // each in its own place, so that the first is always the same
	var wait sync.WaitGroup
	for i, s := range list {
		out, errs := &results[i], errs[2*r.seeds*i:]
		out.numbers = make([]report.Numbers, r.seeds)
		out.capacity = make([]*float64, r.seeds)
		if i < len(r.strategies) {
			for k := range r.seeds {
				wait.Go(func() { errs[k] = r.measure(s, k, out) })
			}
		}
		if r.capacity {
			wait.Go(func() { r.search(s, out.capacity, errs[r.seeds:2*r.seeds]) })
		}
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// measure runs the strategy at -speed.
func (r *runner) measure(s strategy, seed int, out *outcome) error {
	t := r.traces[seed].Speed(r.speed)
	from := r.scaled(seed, r.speed)
	c := r.config(s, r.seed+uint64(seed))
	if seed == 0 && r.html != "" {
		c.Sample = sampleTime(t)
	}
	c.Ended = func(*virtual.Record) bool { return r.ctx.Err() == nil }
	result, err := r.run(s, &c, t, 1)
	if err != nil {
		return err
	}
	records := measured(result.Records, from)
	out.numbers[seed] = report.Measure(records, len(c.Engines), r.slo)
	if seed == 0 && r.html != "" {
		out.curves = report.NewCurves(s.name, records, result.Samples)
	}
	return nil
}

// scaled is when measuring begins at a speed.
func (r *runner) scaled(seed int, speed float64) time.Duration {
	return time.Duration(float64(r.from[seed]) / speed)
}

// measured are the records of what arrived at a time or after.
func measured(records []virtual.Record, from time.Duration) []virtual.Record {
	if from == 0 {
		return records
	}
	var list []virtual.Record
	for i := range records {
		if records[i].Arrived >= from {
			list = append(list, records[i])
		}
	}
	return list
}

// run is one run, when its turn comes.
func (r *runner) run(s strategy, c *virtual.Config, t *trace.Trace, worth int) (*virtual.Result, error) {
	r.slots <- struct{}{}
	defer func() { <-r.slots }()
	if r.ctx.Err() != nil {
		return nil, errInterrupted
	}
	r.progress.begin(s.name)
	result, err := virtual.Run(*c, t)
	r.progress.done(worth)
	if r.ctx.Err() != nil {
		return nil, errInterrupted
	}
	if err != nil {
		return nil, fmt.Errorf("simulating %s: %w", s.name, err)
	}
	return result, nil
}
