package main

import (
	"os"
	"testing"
	"time"
)

// Both loads on two systems, which are the engine itself here, give a figure for each
// measure, and as much progress as was estimated.
func TestBothLoads(t *testing.T) {
	address := serving(t)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	w := &workload{name: "chat", size: kib, tokens: 20, endpoints: 1, clients: 1}
	b := &bench{
		kinds: []kind{{name: plain}, {name: ours}}, pairs: 2, slice: 4 * time.Millisecond, warm: time.Millisecond, progress: &progress{to: null},
		engine: &engine{process: &process{pids: []int{os.Getpid()}}, addresses: []string{address}},
	}
	b.progress.all = b.takes(w) - 2*warmUp - 2*touching - quieting // they need none
	var stands []*stand
	for _, k := range append(b.kinds, kind{name: direct}) {
		stands = append(stands, b.stand(w, &system{kind: k, address: address}))
	}
	defer func() {
		for _, s := range stands {
			s.close()
		}
	}()
	if rate, err := b.saturate(t.Context(), w, stands[:2]); err != nil || rate <= 0 {
		t.Fatalf("%v a second, %v", rate, err)
	}
	if err := b.pace(t.Context(), w, stands, 1000); err != nil {
		t.Fatal(err)
	}
	b.compareAll(w, stands)
	seen := map[string]int{}
	for _, f := range b.figures {
		seen[f.System+" against "+f.Against]++
		if len(f.Pairs) != b.pairs {
			t.Errorf("%s has %d pairs", f.Measure, len(f.Pairs))
		}
	}
	if seen["llm_proxy against plain Caddy"] != 5 || seen["llm_proxy against no gateway"] != 2 || seen["plain Caddy against no gateway"] != 2 {
		t.Errorf("figures: %v", seen)
	}
	if b.progress.done != b.progress.all || b.progress.all != 10*5*time.Millisecond {
		t.Errorf("%v of %v are over", b.progress.done, b.progress.all)
	}
}
