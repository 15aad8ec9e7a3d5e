package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// cell is one set of circumstances under which all sides are measured.
type cell struct {
	API        string `json:"api"`
	Endpoints  int    `json:"endpoints"`
	PromptKB   int    `json:"prompt_kb"`
	Goroutines int    `json:"goroutines"`
}

func (c cell) String() string {
	return fmt.Sprintf("%s, %d endpoints, %d KB, %d goroutines", c.API, c.Endpoints, c.PromptKB, c.Goroutines)
}

// sample is what one batch cost, for each pick.
type sample struct {
	wall, cpu     float64 // seconds
	allocs, bytes float64
}

// bench is a cell with its sides, each with its own source of requests.
type bench struct {
	cell
	sides   []side
	sources []*source
	workers [][]worker
}

// newBench sets the sides up and has each program decide on the same number of
// requests.
func newBench(c cell, pool []load, seed uint64, warmUp int) (*bench, error) {
	sides, err := newSides(c.API, pool, c.PromptKB<<10)
	if err != nil {
		return nil, err
	}
	b := &bench{cell: c, sides: sides}
	for i, s := range sides {
		b.sources = append(b.sources, newSource(c.API, c.PromptKB<<10, seed, uint64(i)))
		var workers []worker
		for range c.Goroutines {
			workers = append(workers, s.worker(max(1, inFlight/c.Goroutines)))
		}
		b.workers = append(b.workers, workers)
	}
	enough := max(4*families, warmUp*batchOf(c)/mostBatch)
	for i := 0; i < len(sides); i += 2 { // the second way into each program finds it warm
		for left := enough; left > 0; left -= batchOf(c) {
			if _, err := b.measure(i, min(left, batchOf(c))); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

const mostBatch = 256

// batchOf is how many requests are measured at once: fewer where each takes long.
func batchOf(c cell) int {
	n := mostBatch
	switch {
	case c.PromptKB > 100:
		n = 12
	case c.PromptKB > 10:
		n = 96
	}
	if c.Endpoints >= 1000 {
		n /= 2
	}
	return max(n, c.Goroutines)
}

// measure has side i decide on n new requests.
func (b *bench) measure(i, n int) (sample, error) {
	b.sides[i].take(b.sources[i].batch(n))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, wall := cpuTime(), time.Now()
	err := decideAll(b.workers[i], n)
	s := sample{wall: time.Since(wall).Seconds(), cpu: (cpuTime() - cpu).Seconds()}
	runtime.ReadMemStats(&after)
	if err != nil {
		return s, fmt.Errorf("%s, %s: %w", b.sides[i].name(), b.cell, err)
	}
	per := float64(n)
	return sample{
		wall: s.wall / per, cpu: s.cpu / per,
		allocs: float64(after.Mallocs-before.Mallocs) / per, bytes: float64(after.TotalAlloc-before.TotalAlloc) / per,
	}, nil
}

// decideAll shares the batch out among the workers, and waits until goroutines that
// the decisions have started have ended too.
func decideAll(workers []worker, n int) error {
	before := runtime.NumGoroutine()
	defer func() {
		for patience := 0; runtime.NumGoroutine() > before && patience < 1e6; patience++ {
			runtime.Gosched()
		}
	}()
	if len(workers) == 1 {
		for i := range n {
			if _, err := workers[0].decide(i); err != nil {
				return err
			}
		}
		return nil
	}
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if _, err := w.decide(int(i)); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (b *bench) finish() {
	for _, workers := range b.workers {
		for _, w := range workers {
			w.finish()
		}
	}
}

// run measures every side once in each round. Garbage is collected between the
// rounds only.
func (b *bench) run(rounds int) ([][]sample, error) {
	defer b.finish()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	samples := make([][]sample, len(b.sides))
	for round := range rounds {
		runtime.GC()
		for k := range b.sides {
			i := (round + k) % len(b.sides)
			s, err := b.measure(i, batchOf(b.cell))
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], s)
		}
	}
	return samples, nil
}

// cpuTime is what this process has used so far, in user and system mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // no such call
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
