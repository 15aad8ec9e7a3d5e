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

// simulate does all that the options ask for. An interrupt ends it at once: what
// cannot be stopped goes on unheard.
func simulate(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	stop, err := o.profile()
	if err != nil {
		return err
	}
	defer stop()
	page, err := o.openPage() // now: nobody wants to hear of a misspelt folder after an hour
	if err != nil {
		return err
	}
	defer page.close()
	p := newProgress(stderr, o.quiet)
	var result *report.Page
	ended := make(chan error, 1)
	go func() {
		var err error
		result, err = compute(ctx, o, p)
		ended <- err
	}()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = errInterrupted
	}
	p.stop()
	if err != nil {
		return err
	}
	if page != nil {
		if err := page.write(result); err != nil {
			return err
		}
	}
	if o.json {
		err = report.WriteJSON(stdout, result.Rows)
	} else if _, err = fmt.Fprintf(stdout, "%s\n\n", result.About); err == nil {
		err = report.WriteTable(stdout, result.Rows, result.Bounds)
	}
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

// compute runs everything and makes a report of it.
func compute(ctx context.Context, o *options, p *progress) (*report.Page, error) {
	w, err := o.load(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.fits(w.traces[0]); err != nil {
		return nil, usageError{err}
	}
	for _, s := range o.strategies {
		if err := o.bearable(s, w.traces[0], o.speed); err != nil {
			return nil, usageError{err}
		}
	}
	r := &runner{options: o, workload: w, ctx: ctx, slots: make(chan struct{}, runtime.GOMAXPROCS(0)), progress: p}
	results, err := r.all()
	if err != nil {
		return nil, err
	}
	return r.report(results), nil
}

// profile writes where the time is spent until stop is called.
func (o *options) profile() (stop func(), err error) {
	if o.cpuprofile == "" {
		return func() {}, nil
	}
	f, err := os.Create(o.cpuprofile) //nolint:gosec // the file that its user names
	if err != nil {
		return nil, fmt.Errorf("writing -cpuprofile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("writing -cpuprofile: %w", err), f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
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
	plots := seed == 0 && r.html != ""
	result, err := r.run(s, seed, r.speed, 1, func(c *virtual.Config, t *trace.Trace) {
		if plots {
			c.Sample = sampleTime(t)
		}
		c.Ended = func(*virtual.Record) bool { return r.ctx.Err() == nil }
	})
	if err != nil {
		return err
	}
	records := measured(result.Records, r.scaled(seed, r.speed))
	out.numbers[seed] = report.Measure(records, len(r.engines), r.slo)
	if plots {
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

// run is one run, when its turn comes. All that it needs is made then: many wait,
// and each has a trace of its own.
func (r *runner) run(s strategy, seed int, speed float64, worth int, set func(*virtual.Config, *trace.Trace)) (*virtual.Result, error) {
	r.slots <- struct{}{}
	defer func() { <-r.slots }()
	if r.ctx.Err() != nil {
		return nil, errInterrupted
	}
	r.progress.begin(s.name)
	t := r.traces[seed].Speed(speed)
	c := r.config(s, r.seed+uint64(seed))
	set(&c, t)
	result, err := virtual.Run(c, t)
	r.progress.done(worth)
	if r.ctx.Err() != nil {
		return nil, errInterrupted
	}
	if err != nil {
		return nil, fmt.Errorf("simulating %s: %w", s.name, err)
	}
	return result, nil
}
