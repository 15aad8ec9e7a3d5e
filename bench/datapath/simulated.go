package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// simulators starts llm_simulator servers, all in one process, and returns their
// addresses.
func (b *bench) simulators(ctx context.Context, n int) (*process, []string, error) {
	folder, err := os.MkdirTemp(b.folder, "simulators")
	if err != nil {
		return nil, nil, err
	}
	var sites strings.Builder
	var addresses []string
	for range n {
		at := free()
		addresses = append(addresses, at)
		_, port, _ := strings.Cut(at, ":")
		fmt.Fprintf(&sites, "http://:%s {\n\tllm_simulator {\n\t\tengine 8b-h100\n\t\tmodel bench\n\t}\n}\n", port)
	}
	path, err := setting{folder: folder}.write("Caddyfile",
		"{\n\tadmin off\n\tdefault_bind 127.0.0.1\n\tpersist_config off\n\tservers {\n\t\tprotocols h1\n\t}\n}\n"+sites.String())
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(b.caddy, "run", "--config", path, "--adapter", "caddyfile") //nolint:gosec // built here
	cmd.Env = append(os.Environ(), "HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	p, err := launch(folder, "simulators", cmd)
	if err != nil {
		return nil, nil, err
	}
	if err := p.answers(ctx, addresses[n-1]); err != nil {
		p.stop()
		return nil, nil, err
	}
	return p, addresses, nil
}

// simulated measures streams that come at an engine's pace. How fast they are is
// the engine's affair, and clients that began together end together, so that what
// is told is the processor time of one event.
func (b *bench) simulated(ctx context.Context, w *workload) error {
	p, addresses, err := b.simulators(ctx, w.endpoints)
	if err != nil {
		return fmt.Errorf("starting the simulated servers: %w", err)
	}
	defer p.stop()
	var stands []*stand
	defer func() {
		for _, s := range stands {
			s.close()
			s.stop()
		}
	}()
	var events atomic.Int64
	prompts := newPrompts(w.size, w.tokens, true, 0)
	for _, k := range b.kinds {
		sys, err := k.start(ctx, b.folder, addresses, mostClients)
		if err != nil {
			return err
		}
		stands = append(stands, &stand{system: sys, seen: seen{}, crowd: crowd{make: func() *client {
			c := newClient(sys.address, prompts, nil)
			c.check = &counting{tokens: w.tokens, events: &events}
			return c
		}}})
	}
	pairs := b.pairsOf(w)
	for round := range pairs {
		b.say("%s: round %d of %d", w.name, round+1, pairs)
		for _, i := range turns(len(stands), round) {
			s := stands[i]
			// The events are counted when the clock is read.
			var counts []int64
			gauge := func() (time.Duration, error) {
				counts = append(counts, events.Load())
				return s.used()
			}
			got, err := s.saturate(ctx, w.clients, b.slice, b.slice, gauge)
			if err != nil {
				return w.failed(s.system, err)
			}
			b.passed(b.visit(w))
			s.seen.add(eventRatio, got.cpu.Seconds()/float64(max(1, counts[1]-counts[0])))
		}
	}
	b.compareAll(w, stands)
	return nil
}
