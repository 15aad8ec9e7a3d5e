package virtual

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// replay runs a trace against eight equal servers.
func replay(t *testing.T, tr *trace.Trace, gateways int) *Result {
	t.Helper()
	cfg, _ := engine.Preset("8b-h100")
	r, err := Run(Config{
		Engines: slices.Repeat([]engine.Config{cfg}, 8), Strategy: selection.StrategyWork,
		Gateways: gateways, Overhead: engine.APIOverhead, Seed: 1,
	}, tr)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// found is the share of prompt tokens that servers found in their caches, and the
// mean time to first token.
func found(r *Result) (hits float64, ttft time.Duration) {
	cached, prompt := 0, 0
	for i := range r.Records {
		x := &r.Records[i]
		cached += x.Cached
		prompt += x.Input
		ttft += x.TTFT() / time.Duration(len(r.Records))
	}
	return float64(cached) / float64(prompt), ttft
}

// Three hundred documents are asked about, more than one server's cache holds, through
// eight gateways that know nothing of each other. They find what the others have had
// computed, because they agree on where a document is at home. Were each to go by what
// it knows of the load, which is little, the pool would compute most of it anew, and
// be swamped by that.
func TestGatewaysThatShareNothingFindEachOthersCaches(t *testing.T) {
	if raceDetector {
		t.Skip("takes some seconds, and has one goroutine")
	}
	docs, err := trace.GSP(trace.GSPOptions{Groups: 300, Prompts: 12, System: 6000, Question: 1000, Rate: 32, Output: 300, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	one, alone := found(replay(t, docs, 1))
	eight, together := found(replay(t, docs, 8))
	t.Logf("one gateway finds %.3f of all prompt tokens cached and takes %v to the first token, eight %.3f and %v", one, alone, eight, together)
	if eight < 0.9*one {
		t.Errorf("eight gateways find %.3f of all prompt tokens cached, one %.3f: want nine tenths of that at least", eight, one)
	}
	if together > 2*alone {
		t.Errorf("it takes %v to the first token with eight gateways and %v with one, want no more than twice as long", together, alone)
	}
}

// A run can be repeated to the byte, with one gateway or several, and by any of the
// strategies.
func TestARunIsTheSameEachTime(t *testing.T) {
	talks, err := trace.Multiturn(trace.MultiturnOptions{Conversations: 60, Rate: 10, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, gateways := range []int{1, 3} {
		first, again := replay(t, talks, gateways), replay(t, talks, gateways)
		if a, b := fmt.Sprint(first.Records), fmt.Sprint(again.Records); a != b {
			t.Errorf("%d gateways: two runs of one seed differ", gateways)
		}
		for i := range first.Records {
			if r := &first.Records[i]; r.Last == 0 || r.Output != talks.Requests[i].Output || r.Refused {
				t.Fatalf("%d gateways: request %d was not served whole: %+v", gateways, i, r)
			}
		}
	}
}
