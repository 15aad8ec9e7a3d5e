package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// profiled is how long a workload runs for its profiles.
const profiled = 20 * time.Second

// profile writes, for both Caddys under each workload at saturation, what their
// processor time, allocations and waiting were spent on.
func (b *bench) profile(ctx context.Context, w *workload, folder string) error {
	if w.simulated {
		return nil // the streams of two thousand show the same
	}
	for _, k := range only(b.kinds, plain, ours) {
		b.say("%s: profiles of %s", w.name, k.name)
		if err := b.profileOne(ctx, w, k, folder); err != nil {
			return err
		}
		b.passed(b.visit(w))
	}
	return nil
}

func (b *bench) profileOne(ctx context.Context, w *workload, k kind, folder string) error {
	sys, err := k.start(ctx, b.folder, b.engine.addresses[:w.endpoints], w.streams+mostClients+200)
	if err != nil {
		return err
	}
	defer sys.stop()
	prefix := filepath.Join(folder, w.name+"."+strings.ReplaceAll(k.name, " ", "-")+".")
	fetched := make(chan error, 1)
	cpu := func() {
		fetched <- fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", sys.admin, profiled/time.Second), prefix+"cpu.pprof")
	}
	if w.streams > 0 {
		t := newTrickle(w, group{sys}, w.streams)
		defer t.leave()
		if err := t.open(ctx); err != nil {
			return err
		}
		go cpu()
		err = <-fetched
	} else {
		s := b.stand(w, sys)
		defer s.close()
		go func() {
			sleep(ctx, time.Second) // until it is warm
			cpu()
		}()
		var got slice
		got, err = s.saturate(ctx, w.clients, time.Second, profiled, s.used)
		if other := <-fetched; err == nil {
			err = other
		}
		b.note("%s, %s: %d requests in %v, %.0f µs each", w.name, k.name, got.requests, profiled, 1e6*got.cpu.Seconds()/float64(max(1, got.requests)))
	}
	if err != nil {
		return w.failed(sys, err)
	}
	for _, what := range []string{"allocs", "heap", "mutex", "block", "goroutine"} {
		if err := fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/%s", sys.admin, what), prefix+what+".pprof"); err != nil {
			return err
		}
	}
	return nil
}

func fetch(ctx context.Context, url, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("fetching %s: %s", url, res.Status)
	}
	f, err := os.Create(path) //nolint:gosec // in the folder that its user names
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(f, res.Body)
	return err
}
