package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/stats"
)

// hold is how long all streams are open before memory is read, and over which
// processor time is.
const hold = time.Second

// slowStreams measures what an open stream costs: in a fresh process each time,
// since one that has been full gives no memory back. The streams are left before
// their end; what came of them must have been right.
func (b *bench) slowStreams(ctx context.Context, w *workload) error {
	pairs := b.pairsOf(w)
	stands := make([]*stand, 0, len(b.kinds))
	for _, k := range b.kinds {
		stands = append(stands, &stand{system: &system{kind: k}, seen: seen{}})
	}
	for round := range pairs {
		for _, i := range turns(len(stands), round) {
			s := stands[i]
			// That the others differ from plain Caddy needs no interval.
			if round > 0 && s.name != plain && s.name != ours {
				continue
			}
			b.say("%s: round %d of %d, %s", w.name, round+1, pairs, s.name)
			if err := b.full(ctx, w, s.kind, s.seen); err != nil {
				return err
			}
			b.passed(b.visit(w))
		}
	}
	for _, s := range stands {
		b.asides = append(b.asides, aside{w.name, s.name, "RSS per stream", stats.Median(s.seen[addedRSS]) / kib, "KiB"})
	}
	b.compareAll(w, stands)
	return nil
}

// group is one system in as many processes as it needs.
type group []*system

// full fills one system with streams.
func (b *bench) full(ctx context.Context, w *workload, k kind, seen seen) error {
	processes, err := processesFor(w.streams)
	if err != nil {
		return err
	}
	var g group
	defer func() {
		for _, s := range g {
			s.stop()
		}
	}()
	share := w.streams / processes
	p, want := newPrompts(w.size, w.tokens, w.stream, 0), body(w.tokens, w.stream)
	for range processes {
		s, err := k.start(ctx, b.folder, b.engine.addresses[:w.endpoints], share+200)
		if err != nil {
			return err
		}
		g = append(g, s)
		warm := crowd{make: func() *client { return newClient(s.address, p, want) }}
		_, err = warm.saturate(ctx, 16, 0, 300*time.Millisecond, s.used)
		warm.close()
		if err != nil {
			return w.failed(s, err)
		}
	}
	if err := g.fill(ctx, w, share, seen); err != nil {
		return fmt.Errorf("%w\nof the engine, %s", w.failed(g[0], err), b.engine.said())
	}
	return nil
}

// processesFor tells over how many processes a system is spread: a stream takes two
// descriptors there, and one here and in the engine, which are not spread.
func processesFor(streams int) (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	const others = 500
	have := int(min(limit.Max, 1<<30))
	if have < streams+others {
		return 0, fmt.Errorf("a process may open %d files, and %d streams take %d: raise the limit (ulimit -n) or leave this workload out", have, streams, streams+others)
	}
	return 1 + (2*streams+others)/have, nil
}

// fill opens the streams, and measures while all are open.
func (g group) fill(ctx context.Context, w *workload, share int, seen seen) error {
	idle, err := g.resident()
	if err != nil {
		return err
	}
	t := newTrickle(w, g, share)
	defer t.leave()
	if err := t.open(ctx); err != nil {
		return err
	}
	before, err := g.used()
	if err != nil {
		return err
	}
	count := t.events.Load()
	select {
	case <-time.After(hold):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := g.used()
	if err != nil {
		return err
	}
	events := t.events.Load() - count
	busy, err := g.resident()
	switch ended := t.ended.Load(); {
	case err != nil:
		return err
	case t.wrong.is.Load():
		return t.wrong.err
	case ended > 0:
		return fmt.Errorf("%d of %d streams had ended before all were open: the machine is too slow for them", ended, len(t.clients))
	case events == 0:
		return errors.New("no event came")
	}
	seen.add(addedRSS, (busy-idle)/float64(len(t.clients)))
	seen.add(eventRatio, (after-before).Seconds()/float64(events))
	return nil
}

func (g group) used() (sum time.Duration, err error) {
	for _, s := range g {
		t, err := s.used()
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

func (g group) resident() (sum float64, err error) {
	for _, s := range g {
		r, err := s.resident()
		if err != nil {
			return 0, err
		}
		sum += r
	}
	return sum, nil
}
