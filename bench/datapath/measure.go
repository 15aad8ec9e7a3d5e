package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/stats"
)

// bench is one run.
type bench struct {
	folder   string
	profiles string // a folder for them, instead of measuring; or nothing
	kinds    []kind // what is measured, plain Caddy first
	caddy    string // the program
	engine   *engine
	pairs    int
	slice    time.Duration
	warm     time.Duration
	load     float64 // of the open loop, as a part of plain Caddy's saturation
	*progress

	figures []figure
	asides  []aside
}

// aside is something else that was seen, of one system.
type aside struct {
	Workload string  `json:"workload"`
	System   string  `json:"system"`
	What     string  `json:"what"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
}

// seen is what the slices of one system had, by measure.
type seen map[measure][]float64

func (s seen) add(m measure, v float64) { s[m] = append(s[m], v) }

// stand is one system under one workload.
type stand struct {
	*system
	crowd
	seen seen
}

// measure measures one workload, or writes its profiles. What was seen of one that is
// not finished is forgotten.
func (b *bench) measure(ctx context.Context, w *workload) (err error) {
	asides := len(b.asides)
	defer func() {
		if err != nil {
			b.asides = b.asides[:asides]
		}
	}()
	switch {
	case b.profiles != "":
		return b.profile(ctx, w, b.profiles)
	case w.simulated:
		return b.simulated(ctx, w)
	case w.streams > 0:
		return b.slowStreams(ctx, w)
	default:
		return b.run(ctx, w)
	}
}

// run measures one workload of short requests, under both loads.
func (b *bench) run(ctx context.Context, w *workload) error {
	stands, err := b.stands(ctx, w)
	defer func() {
		for _, s := range stands {
			s.close()
			s.stop()
		}
	}()
	if err != nil {
		return err
	}
	if err := b.idle(ctx, w, stands); err != nil {
		return err
	}
	rate, err := b.saturate(ctx, w, stands)
	if err != nil {
		return err
	}
	rate *= b.load
	b.asides = append(b.asides, aside{w.name, "", "moderate load", rate, "/s"})
	none, err := kind{name: direct}.start(ctx, b.folder, b.engine.addresses[:w.endpoints], 0)
	if err != nil {
		return err
	}
	stands = append(stands, b.stand(w, none))
	if err := b.pace(ctx, w, stands, rate); err != nil {
		return err
	}
	b.compareAll(w, stands)
	return nil
}

// pairsOf is how many pairs a workload gets.
func (b *bench) pairsOf(w *workload) int {
	if w.pairs > 0 {
		return min(b.pairs, w.pairs)
	}
	return b.pairs
}

// kindsOf are those that are measured under a workload.
func (b *bench) kindsOf(w *workload) []kind {
	if w.alone {
		return only(b.kinds, plain, ours)
	}
	return b.kinds
}

// only returns those with the given names.
func only(kinds []kind, names ...string) []kind {
	var list []kind
	for _, k := range kinds {
		for _, name := range names {
			if k.name == name {
				list = append(list, k)
			}
		}
	}
	return list
}

func (b *bench) stand(w *workload, s *system) *stand {
	p, want := newPrompts(w.size, w.tokens, w.stream, 0), body(w.tokens, w.stream)
	return &stand{system: s, seen: seen{}, crowd: crowd{make: func() *client { return newClient(s.address, p, want) }}}
}

// stands starts the systems and lets them get warm.
func (b *bench) stands(ctx context.Context, w *workload) ([]*stand, error) {
	b.say("%s: starting the systems", w.name)
	var list []*stand
	for _, k := range b.kindsOf(w) {
		sys, err := k.start(ctx, b.folder, b.engine.addresses[:w.endpoints], mostClients+200)
		if err != nil {
			return list, err
		}
		list = append(list, b.stand(w, sys))
	}
	for _, s := range list {
		if _, err := s.saturate(ctx, w.clients, 0, warmUp, s.used); err != nil {
			return list, w.failed(s.system, err)
		}
		b.passed(warmUp)
	}
	return list, b.settle(ctx, w, list)
}

// settle brings the gateways to where they are when they have worked for a minute,
// which a benchmark would otherwise measure half of the time: long prompts that
// nobody knows have touched all of the index's memory, and the vocabulary that the
// first prompts are counted by has been let go.
func (b *bench) settle(ctx context.Context, w *workload, list []*stand) error {
	b.say("%s: settling", w.name)
	long := *w
	long.size, long.stream = 400<<10, false
	for _, s := range list {
		if s.name != plain && s.name != ours {
			continue
		}
		l := b.stand(&long, s.system)
		_, err := l.saturate(ctx, 16, 0, touching, s.used)
		l.close()
		if err != nil {
			return w.failed(s.system, err)
		}
		b.passed(touching)
	}
	sleep(ctx, quieting)
	b.passed(quieting)
	return ctx.Err()
}

// manyEndpoints is from how many on they make work when nobody asks.
const manyEndpoints = 64

// idle measures what the gateway takes when nobody asks, where there are many
// endpoints to look after.
func (b *bench) idle(ctx context.Context, w *workload, stands []*stand) error {
	if w.endpoints < manyEndpoints {
		return nil
	}
	b.say("%s: idle for %v", w.name, idling)
	before := make([]time.Duration, len(stands))
	for i, s := range stands {
		var err error
		if before[i], err = s.used(); err != nil {
			return err
		}
	}
	select {
	case <-time.After(idling):
	case <-ctx.Done():
		return ctx.Err()
	}
	for i, s := range stands {
		after, err := s.used()
		if err != nil {
			return err
		}
		b.asides = append(b.asides, aside{w.name, s.name, "idle, of one core", 100 * (after - before[i]).Seconds() / idling.Seconds(), "%"})
	}
	b.passed(idling)
	return nil
}

// saturate measures the closed loop, and returns what plain Caddy carries.
func (b *bench) saturate(ctx context.Context, w *workload, stands []*stand) (rate float64, err error) {
	var rates []float64
	client, engine := b.beside()
	total := 0
	for round := range b.pairsOf(w) {
		b.say("%s: saturation, round %d of %d", w.name, round+1, b.pairsOf(w))
		for _, i := range turns(len(stands), round) {
			s := stands[i]
			got, err := s.saturate(ctx, w.clients, b.warm, b.slice, s.used)
			if err != nil {
				return 0, w.failed(s.system, err)
			}
			b.passed(b.visit(w))
			if got.requests == 0 {
				return 0, fmt.Errorf("%s, %s: no request was answered within %v", w.name, s.name, b.slice)
			}
			total += got.requests
			s.seen.add(cpuRatio, got.cpu.Seconds()/float64(got.requests))
			s.seen.add(rateRatio, float64(got.requests)/got.seconds)
			if s.name == plain {
				rates = append(rates, float64(got.requests)/got.seconds)
			}
		}
	}
	c, e := b.beside()
	// The warm-ups have asked too, as often for their time as the slices.
	asked := float64(total) * float64(b.warm+b.slice) / float64(b.slice)
	b.asides = append(b.asides,
		aside{w.name, "", "CPU of the client per request", 1e6 * (c - client).Seconds() / asked, "µs"},
		aside{w.name, "", "CPU of the engine per request", 1e6 * (e - engine).Seconds() / asked, "µs"})
	return stats.Median(rates), nil
}

// beside is the processor time of what is not measured: the client and the engine.
func (b *bench) beside() (client, engine time.Duration) {
	client, _ = processorTime(os.Getpid()) // 0 is as good an answer where they are asides
	engine, _ = b.engine.used()
	return client, engine
}

// pace measures the open loop.
func (b *bench) pace(ctx context.Context, w *workload, stands []*stand, rate float64) error {
	for round := range b.pairsOf(w) {
		b.say("%s: %.0f a second, round %d of %d", w.name, rate, round+1, b.pairsOf(w))
		for _, i := range turns(len(stands), round) {
			s := stands[i]
			got, err := s.pace(rate, b.warm, b.slice, s.used)
			if err != nil {
				return w.failed(s.system, err)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			b.passed(b.visit(w))
			first, whole := make([]float64, len(got.took)), make([]float64, len(got.took))
			for i, t := range got.took {
				first[i], whole[i] = t.first.Seconds(), t.whole.Seconds()
			}
			s.seen.add(pacedRatio, got.cpu.Seconds()/float64(max(1, got.requests)))
			s.seen.add(addedP50, stats.Quantile(whole, 0.5))
			s.seen.add(addedP99, stats.Quantile(whole, 0.99))
			if w.stream { // else it is nearly the same
				s.seen.add(addedFirst50, stats.Quantile(first, 0.5))
				s.seen.add(addedFirst99, stats.Quantile(first, 0.99))
			}
		}
	}
	return nil
}

// compareAll makes the figures of one workload: everything against plain Caddy,
// and latency against no gateway, too.
func (b *bench) compareAll(w *workload, stands []*stand) {
	by := map[string]*stand{}
	for _, s := range stands {
		by[s.name] = s
	}
	add := func(m measure, system, against *stand) {
		if system == nil || against == nil || system == against || len(against.seen[m]) == 0 || len(system.seen[m]) == 0 {
			return
		}
		b.figures = append(b.figures, compare(w, m, system.name, against.name, system.seen[m], against.seen[m]))
	}
	for _, m := range []measure{cpuRatio, rateRatio, pacedRatio, addedP50, addedP99, addedFirst50, addedFirst99, addedRSS, eventRatio} {
		for _, s := range stands {
			if s.name != direct {
				add(m, s, by[plain])
			}
		}
	}
	for _, m := range []measure{addedP50, addedP99, addedFirst50, addedFirst99} {
		for _, s := range stands {
			add(m, s, by[direct])
		}
	}
}
