package main

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// An hour of conversations on eight servers, at twice their rate: what one run of
// the command simulates. It is to take less than three seconds on one core.
func BenchmarkReplay12000(b *testing.B) {
	t := hour(b)
	cfg, _ := engine.Preset("8b-h100")
	engines := make([]engine.Config, 8)
	for i := range engines {
		engines[i] = cfg
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := virtual.Run(virtual.Config{Engines: engines, Strategy: "work", Seed: 1}, t); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/op")
}

// hour is a published trace if it is at hand, else one of about that shape: long
// prompts, of which a third was seen before.
func hour(b *testing.B) *trace.Trace {
	b.Helper()
	t, err := trace.Open("../../../shared/traces/mooncake_conversation_60min_dithered.jsonl.gz", trace.Options{})
	if errors.Is(err, fs.ErrNotExist) {
		b.Log("the published trace is not at hand: a workload is made up")
		t, err = trace.Multiturn(trace.MultiturnOptions{
			Rate: 1.3, Conversations: 4000, Turns: 3, System: 500, Question: 9000, Answer: 350, MaxContext: 120_000, Seed: 1,
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	return t.Speed(2)
}
