package baseline

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// burstyConversation has the ticks of the published trace: ten requests at once
// every three seconds.
const burstyConversation = "../../../shared/traces/mooncake_conversation_30min.jsonl.gz"

func skipSlow(t *testing.T) {
	t.Helper()
	if testing.Short() || raceDetector {
		t.Skip("replays half an hour of a trace four times")
	}
}

// Figure 5 of the Mooncake paper has the mean time to first token of its prefill
// pool on this very trace: 19.65 s by random placement, 5.27 s by load, 3.58 s where
// it counts what each instance has cached, 3.07 s with the cache moved between
// instances. That is 5.5 : 1.47 : 1 : 0.86. How many prefill instances there were
// is not published, so seconds cannot be compared, but ratios can: with seven here
// they come out as 4.9 : 1.45 : 1 : 0.89, with six as 5.0 : 1.55 : 1 : 0.86.
//
// Here the load is that of prompt tokens, and a cache that moves is a shared one.
func TestMooncakeFigure5(t *testing.T) {
	skipSlow(t)
	tr, err := trace.Open(burstyConversation, trace.Options{})
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the trace %s is not there", burstyConversation)
	} else if err != nil {
		t.Fatal(err)
	}
	for i := range tr.Requests {
		tr.Requests[i].Output = 1 // other instances decode
	}
	// Llama-3-70B on eight A100: the straight line of its linear layers, as profiled
	// for Vidur, and a cache of 3 million tokens.
	cfg, _ := engine.Preset("70b-h100x8")
	cfg.Costs.Floor, cfg.Costs.Weights, cfg.Costs.Token = 19.8, 35.1, 0.0954
	cfg.KVTokens = 3_000_000
	const instances = 7
	engines := slices.Repeat([]engine.Config{cfg}, instances)
	mean := func(name string) float64 { return sum(play(t, name, tr, engines).Records).ttft.Seconds() }
	cacheAware := mean("min_ttft")
	for _, tc := range []struct {
		name            string
		want, published float64
	}{
		{"random", 4.90, 5.5},
		{"least_tokens", 1.46, 1.47},
		{"ideal", 0.88, 0.86},
	} {
		got := mean(tc.name) / cacheAware
		t.Logf("%s takes %.2f times the %.2f s of min_ttft; published %.2f", tc.name, got, cacheAware, tc.published)
		if got < 0.85*tc.want || got > 1.15*tc.want {
			t.Errorf("%s takes %.2f times as long as min_ttft, want about %.2f", tc.name, got, tc.want)
		}
		if got < 0.75*tc.published || got > 1.25*tc.published {
			t.Errorf("%s takes %.2f times as long as min_ttft, too far from the published %.2f", tc.name, got, tc.published)
		}
	}
}

// llm-d's benchmark of prefix caches on eight Qwen3-32B with two H100 each, at its
// last stage of 60 requests a second: with its precise index the mean time to first
// token was 0.19 s, a token took 63 ms and a request 63 s; behind a Kubernetes
// service it was 34.9 s, 70 ms and 105 s.
//
// Here it is 0.1 s, 88 ms and 88 s against 119 s, 48 ms and 167 s. The order is the
// same, and so is the reason: where prompts go anywhere, each server holds all
// contexts, memory is full and requests wait for it. How long they wait is not
// matched: the simulated engines decode large batches 40 % slower than the real
// ones did, and have room for fewer requests at once.
func TestB2B(t *testing.T) {
	skipSlow(t)
	const measured = 1500
	tr, err := trace.B2B(trace.B2BOptions{Rate: 60, Requests: measured, WarmRate: 10, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	cfg, _ := engine.Preset("32b-h100x2")
	engines := slices.Repeat([]engine.Config{cfg}, 8)
	for _, tc := range []struct {
		name             string
		ttft, tpot, e2e  [2]time.Duration
		leastHit, topHit float64
	}{
		{
			"llmd",
			[2]time.Duration{50 * time.Millisecond, 400 * time.Millisecond},
			[2]time.Duration{50 * time.Millisecond, 100 * time.Millisecond},
			[2]time.Duration{50 * time.Second, 100 * time.Second},
			0.98, 1,
		},
		{
			"random",
			[2]time.Duration{25 * time.Second, 150 * time.Second},
			[2]time.Duration{40 * time.Millisecond, 80 * time.Millisecond},
			[2]time.Duration{90 * time.Second, 200 * time.Second},
			0.1, 0.35,
		},
	} {
		records := play(t, tc.name, tr, engines).Records
		records = records[len(records)-measured:]
		var tpot, e2e time.Duration
		for i := range records {
			tpot += records[i].TPOT() / measured
			e2e += (records[i].Last - records[i].Arrived) / measured
		}
		got := sum(records)
		t.Logf("%s: first token after %v, %v a token, %v in all, %.3f cached", tc.name, got.ttft, tpot, e2e, got.hits)
		for _, m := range []struct {
			what string
			got  time.Duration
			want [2]time.Duration
		}{{"time to first token", got.ttft, tc.ttft}, {"time per token", tpot, tc.tpot}, {"time", e2e, tc.e2e}} {
			if m.got < m.want[0] || m.got > m.want[1] {
				t.Errorf("%s: mean %s is %v, want %v to %v", tc.name, m.what, m.got, m.want[0], m.want[1])
			}
		}
		if got.hits < tc.leastHit || got.hits > tc.topHit {
			t.Errorf("%s: %.3f of all prompt tokens cached, want %v to %v", tc.name, got.hits, tc.leastHit, tc.topHit)
		}
	}
}
