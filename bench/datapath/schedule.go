package main

import (
	"context"
	"time"
)

// What a workload takes besides its slices, by experience.
const (
	warmUp       = time.Second     // of each system
	touching     = time.Second     // of both gateways
	quieting     = 9 * time.Second // of all at once
	idling       = 5 * time.Second // of all at once
	answering    = 1300 * time.Millisecond
	filling      = 2 * time.Second // and
	fillingEach  = 400 * time.Microsecond
	profiledMore = 3 * time.Second
)

// all measures the workloads, one after the other.
func (b *bench) all(ctx context.Context, list []workload) error {
	b.progress.begun = time.Now()
	for _, w := range list {
		b.progress.all += b.takes(&w)
	}
	over := time.Duration(0)
	for _, w := range list {
		if err := b.measure(ctx, &w); err != nil {
			return err
		}
		over += b.takes(&w)
		b.progress.done = over // whatever was passed on the way
	}
	return nil
}

// takes is about how long a workload takes.
func (b *bench) takes(w *workload) time.Duration {
	systems, pairs, visit := len(b.kindsOf(w)), b.pairsOf(w), b.visit(w)
	switch {
	case b.profiles != "" && w.simulated:
		return 0
	case b.profiles != "":
		return 2 * visit
	case w.simulated:
		return time.Duration(systems*pairs) * visit
	case w.streams > 0:
		return time.Duration(systems+(pairs-1)*min(systems, 2)) * visit
	}
	all := time.Duration(systems)*warmUp + 2*touching + quieting + time.Duration((2*systems+1)*pairs)*visit // both loads, and no gateway
	if w.endpoints >= manyEndpoints {
		all += idling
	}
	return all
}

// visit is about how long it takes to measure one system once.
func (b *bench) visit(w *workload) time.Duration {
	switch {
	case b.profiles != "":
		return profiled + profiledMore
	case w.simulated:
		return 2*b.slice + answering // until the last answers have ended
	case w.streams > 0:
		return filling + time.Duration(w.streams)*fillingEach
	default:
		return b.warm + b.slice
	}
}
