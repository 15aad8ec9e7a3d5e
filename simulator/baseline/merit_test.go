package baseline

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// outcome is what a run comes to.
type outcome struct {
	ttft time.Duration // mean
	hits float64       // of all prompt tokens
}

// play runs the trace on a pool by the named strategy, "ideal" for the ideal pool.
func play(t testing.TB, name string, tr *trace.Trace, engines []engine.Config) *virtual.Result {
	t.Helper()
	cfg := virtual.Config{
		Engines: engines, Oracle: IsOracle(name), Scrape: Scrape(name), Overhead: engine.APIOverhead, Seed: 1,
	}
	if name == "ideal" {
		cfg.Engines, cfg.Rule, cfg.Oracle = IdealPool(engines, false), Ideal, true
	} else {
		rule, ok := New(name)
		if !ok {
			t.Fatalf("there is no strategy %q", name)
		}
		cfg.Rule = rule
	}
	r, err := virtual.Run(cfg, tr)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// sum is the outcome of the records.
func sum(records []virtual.Record) outcome {
	var ttft time.Duration
	input, cached := 0, 0
	for i := range records {
		ttft += records[i].TTFT()
		input += records[i].Input
		cached += records[i].Cached
	}
	return outcome{ttft / time.Duration(len(records)), float64(cached) / float64(input)}
}

// pool is so many 8b-h100.
func pool(n int) []engine.Config {
	cfg, _ := engine.Preset("8b-h100")
	return slices.Repeat([]engine.Config{cfg}, n)
}

// heavyTail is requests whose prompts are mostly short and now and then very long,
// a third of them the next turn of a conversation before.
func heavyTail(requests int, perSecond float64) *trace.Trace {
	r := rand.New(rand.NewPCG(11, 7))
	tr := &trace.Trace{Name: "heavy tail", Block: 512}
	at, id := 0.0, uint64(0)
	for i := range requests {
		at += r.ExpFloat64() / perSecond
		var head []uint64
		if i > 0 && r.IntN(3) == 0 {
			head = tr.Requests[r.IntN(i)].Blocks
		}
		pieces := min(200, int(3*math.Pow(1-r.Float64(), -1/1.1))+len(head))
		blocks := slices.Clone(head[:min(len(head), pieces)])
		for len(blocks) < pieces {
			id++
			blocks = append(blocks, scramble(id))
		}
		tr.Requests = append(tr.Requests, trace.Request{
			At: time.Duration(at * float64(time.Second)), Input: pieces * 512, Output: 50 + r.IntN(300), Blocks: blocks,
		})
	}
	return tr
}

// The order of merit on a load that is heavy but not hopeless, by mean time to
// first token: each rule that knows more than another is better, and nobody beats
// the ideal pool. It would catch a rule with a sign the wrong way round, or one that
// reads what is not its own.
func TestOrderOfMerit(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("plays 27 runs")
	}
	tr, engines := heavyTail(1000, 4.5), pool(4)
	got := map[string]outcome{}
	names := []string{"ideal"}
	for _, name := range Names() {
		names = append(names, name, Oracle+name)
	}
	for _, name := range names {
		got[name] = sum(play(t, name, tr, engines).Records)
		t.Logf("%-24s %8.0f ms, %.3f cached", name, got[name].ttft.Seconds()*1000, got[name].hits)
	}
	for _, tc := range []struct {
		better, worse string
		by            float64
	}{
		{"p2c", "random", 1.3},
		{"least_requests", "p2c", 1},
		{"least_requests", "round_robin", 1.3},
		{"least_tokens", "round_robin", 2},
		{"least_tokens", "least_requests", 1.1},
		{"lpwl", "least_tokens", 1.1},
		{"min_ttft", "least_tokens", 1.1},
		{"lmetric", "least_tokens", 1.1},
		{"aibrix", "least_requests", 1},
		{"dynamo", "least_requests", 1.1},
		{"ideal", "oracle:min_ttft", 1.05},
	} {
		if b, w := got[tc.better].ttft, got[tc.worse].ttft; float64(w) < tc.by*float64(b) {
			t.Errorf("%s has a mean time to first token of %v, %s of %v: want %.2f times as much", tc.worse, w, tc.better, b, tc.by)
		}
	}
	for _, name := range Names() {
		if best := got["oracle:min_ttft"].ttft; float64(got[Oracle+name].ttft) < 0.95*float64(best) {
			t.Errorf("with perfect signals %s takes %v, min_ttft %v", name, got[Oracle+name].ttft, best)
		}
	}
	for _, name := range []string{"chwbl", "sglang", "llmd", "aibrix", "dynamo", "lmetric", "lpwl", "min_ttft"} {
		if h := got[name].hits; h < 1.5*got["least_requests"].hits {
			t.Errorf("%s finds %.3f of all tokens cached, a rule that does not look finds %.3f", name, h, got["least_requests"].hits)
		}
	}
}

// Groups that share a long prompt: each rule that looks for it keeps the groups
// together.
func TestSharedPrefixes(t *testing.T) {
	tr, err := trace.GSP(trace.GSPOptions{Rate: 40, Groups: 32, Prompts: 16, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	blind := sum(play(t, "least_requests", tr, pool(4)).Records).hits
	for _, name := range []string{"chwbl", "sglang", "llmd", "aibrix", "dynamo", "lmetric", "lpwl", "min_ttft"} {
		if raceDetector && name != "dynamo" {
			continue // one will do
		}
		for _, n := range []string{name, Oracle + name} {
			if h := sum(play(t, n, tr, pool(4)).Records).hits; h < 0.8 || h < blind+0.1 {
				t.Errorf("%s finds %.3f of all tokens cached, a rule that does not look finds %.3f", n, h, blind)
			}
		}
	}
}

// A seed and a trace give the same run to the byte, also with several gateways; and
// another seed another one where there is something to draw.
func TestRunsRepeat(t *testing.T) {
	requests := 150
	if raceDetector {
		requests = 30
	}
	tr, engines := heavyTail(requests, 9), pool(4)
	for _, name := range Names() {
		for _, oracle := range []bool{false, true} {
			rule, _ := New(name)
			run := func(seed uint64) []virtual.Record {
				r, err := virtual.Run(virtual.Config{
					Engines: engines, Rule: rule, Oracle: oracle, Gateways: 3, Seed: seed, Overhead: engine.APIOverhead,
				}, tr)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return r.Records
			}
			one := run(1)
			if !reflect.DeepEqual(one, run(1)) {
				t.Errorf("%s, oracle %v: two runs of one seed differ", name, oracle)
			}
			if reflect.DeepEqual(one, run(2)) {
				t.Errorf("%s, oracle %v: two seeds give the same run", name, oracle)
			}
		}
	}
}
