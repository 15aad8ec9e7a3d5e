package live

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/baseline"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// setting is what both worlds have in common.
type setting struct {
	name     string
	trace    *trace.Trace // compressed
	engine   string
	servers  int
	compress float64 // how many times faster time is
	rounds   int
}

// minTokens is from how many tokens on a server counts as warm. The default is just
// the 512 with which all conversations of the trace begin. Of a text they come to a
// token less, for the few bytes that the gateway's reader puts before a prompt, and
// all servers would be warm in one world and none in the other.
const minTokens = 448

// workload is a trace, of which a slice is replayed.
type workload struct {
	name, file string

	// dither undoes the trace's ticks: with those it is one burst after the other.
	dither time.Duration

	// span is how much of it is replayed, and compress how many times faster: so
	// much that what a real gateway adds to a request is little beside the time to
	// its first token.
	span, compress float64 // span is in seconds
}

var workloads = []workload{
	{"conversations", "mooncake_conversation_60min_dithered.jsonl.gz", 0, 90, 4},
	{"tools", "toolagent_like_15min_SEMISYNTHETIC.jsonl.gz", 3 * time.Second, 60, 2},
}

// need skips the test unless it was asked for, and reads the workload. The
// environment may change the run: doc.go tells how.
func need(t *testing.T, w workload) setting {
	t.Helper()
	if os.Getenv("LLMLB_LIVE") != "1" {
		t.Skip("takes minutes and measures time; set LLMLB_LIVE=1 to run it, as .ci/full live does")
	}
	if slow {
		t.Skip("the race detector would be measured, not the gateway")
	}
	s := setting{
		name: w.name, engine: "8b-h100", servers: 4,
		compress: number(t, "LLMLB_LIVE_COMPRESS", w.compress), rounds: int(number(t, "LLMLB_LIVE_ROUNDS", 3)),
	}
	all, err := trace.Open("../../../shared/traces/"+w.file, trace.Options{})
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the trace is not at hand: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	span := time.Duration(number(t, "LLMLB_LIVE_SPAN", w.span) * float64(time.Second))
	s.trace = all.Dither(w.dither, 1).Speed(number(t, "LLMLB_LIVE_RATE", 1)).First(span).Speed(s.compress)
	return s
}

func number(t *testing.T, name string, otherwise float64) float64 {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	x, err := strconv.ParseFloat(v, 64)
	if err != nil || x <= 0 {
		t.Fatalf("%s is %q, want a number above 0", name, v)
	}
	return x
}

// compressed is a time in the compressed worlds.
func (s *setting) compressed(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.compress)
}

func (s *setting) scrape() time.Duration { return s.compressed(llmlb.DefaultInterval) }

func (s *setting) spillTTFT() time.Duration { return s.compressed(llmlb.DefaultSpillTTFT) }

// staleAfter is what package virtual has for such scrapes.
func (s *setting) staleAfter() time.Duration { return max(llmlb.DefaultStaleAfter, 3*s.scrape()) }

// own says whether the strategy is one of this project's.
func own(strategy string) bool { return slices.Contains(selection.Strategies(), strategy) }

// rules are what Caddy's policies are called where they are rules in virtual time.
var rules = map[string]string{"least_conn": "least_requests", "round_robin": "round_robin"}

// config is one server, compressed.
func (s *setting) config(t *testing.T) engine.Config {
	t.Helper()
	c, ok := engine.Preset(s.engine)
	if !ok {
		t.Fatalf("no engine %q", s.engine)
	}
	k := &c.Costs
	for _, ms := range []*float64{&k.Base, &k.Floor, &k.Weights, &k.Token, &k.Pair, &k.Context, &k.Sequence} {
		*ms /= s.compress
	}
	return c
}

// virtually is the run of the strategy in virtual time.
func (s *setting) virtually(t *testing.T, strategy string, seed uint64) *virtual.Result {
	t.Helper()
	cfg := virtual.Config{
		Engines: slices.Repeat([]engine.Config{s.config(t)}, s.servers),
		Scrape:  s.scrape(), Overhead: s.compressed(engine.APIOverhead), Seed: seed,
	}
	if rule, caddys := rules[strategy]; caddys {
		var known bool
		if cfg.Rule, known = baseline.New(rule); !known {
			t.Fatalf("no rule %q", rule)
		}
	} else {
		cfg.Strategy = strategy
		cfg.Adjust = func(set *llmlb.Settings) {
			set.MinTokens = minTokens
			if strategy == selection.StrategyPrefixSpill {
				set.SpillWaiting, set.SpillTTFT = llmlb.DefaultSpillWaiting, s.spillTTFT()
			}
		}
	}
	result, err := virtual.Run(cfg, s.trace)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
