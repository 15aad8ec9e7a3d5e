package bound

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

func preset(tb testing.TB, name string) engine.Config {
	tb.Helper()
	c, ok := engine.Preset(name)
	if !ok {
		tb.Fatalf("no preset %q", name)
	}
	return c
}

// The closed form is the engine's own time, to a nanosecond a step for rounding;
// the bound is below it by no more than it says.
func TestSoloIsTheIdleEngine(t *testing.T) {
	for _, name := range engine.PresetNames() {
		for _, r := range []struct{ found, input, output int }{
			{0, 1, 1},
			{0, 100, 50},
			{16, 40, 3},
			{512, 7000, 350},
			{0, 8192, 1},
			{0, 8193, 2},
			{4096, 40_000, 10},
			{0, 120_000, 600},
			{1023, 1024, 5}, // found wholly
		} {
			t.Run(fmt.Sprintf("%s %+v", name, r), func(t *testing.T) {
				c := preset(t, name)
				blocks := make([]uint64, r.input/16)
				for i := range blocks {
					blocks[i] = uint64(i)
				}
				warm := (r.found + 15) / 16 * 16
				tr := &trace.Trace{Block: 16, Requests: []trace.Request{
					{Input: max(warm, 1), Output: 1, Blocks: blocks[:warm/16]},
					{At: time.Hour, Input: r.input, Output: r.output, Blocks: blocks},
				}}
				got := serve(t, tr, c, 1, rand.New(rand.NewPCG(1, 1))).outcomes[1]
				if got.cached != r.found {
					t.Fatalf("the engine found %d tokens, want %d", got.cached, r.found)
				}

				p := newPrices(c.Costs)
				m := chunks(&c, r.input-r.found)
				alone := nanos(prefill(&p, &c, r.input, r.found))
				if d := got.ttft - alone; d.Abs() > time.Duration(m) {
					t.Errorf("closed form of the prefill is %v, the engine took %v", alone, got.ttft)
				}
				s := Solo(tr, c)[1]
				if s.Found != r.found {
					t.Errorf("solo finds %d tokens, want %d", s.Found, r.found)
				}
				spared := time.Duration(c.Costs.Context * float64((m-1)*c.MaxBatchedTokens) * 1e6)
				if d := got.ttft - s.TTFT; d < 0 || d > spared+5*time.Microsecond {
					t.Errorf("solo time to first token is %v, the engine took %v: want no more, and no less than %v below", s.TTFT, got.ttft, spared)
				}
				rest := got.e2e - got.ttft
				if d := rest - (s.E2E - s.TTFT); d < -1 || d > time.Duration(r.output) {
					t.Errorf("solo decoding takes %v, the engine took %v", s.E2E-s.TTFT, rest)
				}
			})
		}
	}
}

func TestSoloFindsWholeBlocks(t *testing.T) {
	tr := &trace.Trace{Block: 10, Requests: []trace.Request{
		{Input: 40, Output: 1, Blocks: []uint64{1, 2, 3, 4}},
		{Input: 45, Output: 1, Blocks: []uint64{1, 2, 3, 5, 6}},
	}}
	if got := Solo(tr, perToken())[1].Found; got != 16 {
		t.Errorf("of 30 tokens that were there, %d are found; want a block of 16", got)
	}
}

// Three things make an engine faster than the formula for an idle one that finds all
// it can, and the bound allows for them.
func TestSoloAllowsForLuck(t *testing.T) {
	t.Run("company makes the first chunk shorter", func(t *testing.T) {
		// A step takes 3 ms and 10 µs for each token of context; what is computed
		// in it is free.
		c := perToken()
		c.Costs = engine.Costs{Floor: 3, Context: 0.01}
		c.MaxBatchedTokens = 100
		long := trace.Request{Input: 110, Output: 1}
		company := trace.Request{Input: 50, Output: 1}
		bound := Solo(&trace.Trace{Requests: []trace.Request{long}}, c)[0].TTFT
		alone, together := ttft(t, c, long), ttft(t, c, company, long)
		if together >= alone {
			t.Fatalf("in company it takes %v, alone %v; want less, or the case is none", together, alone)
		}
		if together < bound {
			t.Errorf("in company it takes %v, less than the bound of %v", together, bound)
		}
	})
	t.Run("steps are rounded down", func(t *testing.T) {
		c := perToken()
		c.Costs = engine.Costs{Base: 1.0000004}
		c.MaxBatchedTokens = 10
		tr := &trace.Trace{Requests: []trace.Request{{Input: 100, Output: 11}}}
		bound := Solo(tr, c)[0]
		got := serve(t, tr, c, 1, rand.New(rand.NewPCG(1, 1))).outcomes[0]
		if got.ttft < bound.TTFT || got.e2e < bound.E2E {
			t.Errorf("it takes %v and %v, less than the bounds of %v and %v", got.ttft, got.e2e, bound.TTFT, bound.E2E)
		}
	})
	t.Run("to find nothing may be faster", func(t *testing.T) {
		c := perToken()
		c.Costs = engine.Costs{Floor: 3, Context: 0.01}
		r := trace.Request{Input: 40, Output: 1, Blocks: []uint64{1, 2, 3}}
		tr := &trace.Trace{Block: 16, Requests: []trace.Request{r, r}}
		if got, bound := ttft(t, c, r), Solo(tr, c)[1].TTFT; got < bound {
			t.Errorf("on a cold engine it takes %v, less than the bound of %v", got, bound)
		}
	})
}

// ttft is the time to first token of the last of some requests that an engine with
// an empty cache is given at once.
func ttft(tb testing.TB, c engine.Config, requests ...trace.Request) time.Duration {
	tb.Helper()
	e, err := engine.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	for i, r := range requests {
		if err := e.Add(0, engine.Request{ID: uint64(i), Input: r.Input, Output: r.Output}); err != nil {
			tb.Fatal(err)
		}
	}
	var now time.Duration
	for {
		s, ok := e.Begin(now)
		if !ok {
			tb.Fatal("the engine stopped before the last request had a token")
		}
		now += s.Duration
		for _, event := range e.End(nil) {
			if event.ID == uint64(len(requests)-1) {
				return now
			}
		}
	}
}

// Whatever load does to chunks, batches and memory, none is faster than alone.
func TestNoLoadBeatsTheBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 1))
	costs := []engine.Costs{
		preset(t, "8b-h100").Costs,
		preset(t, "70b-h100x4").Costs,
		{Base: 0.1, Token: 0.01},                                // no floor
		{Base: 0.1, Floor: 3, Token: 0.02, Context: 0.01},       // finding much is slower
		{Base: 0.001, Floor: 0.5, Token: 0.001, Context: 0.002}, // reading costs more than computing
		{Token: 0.05, Pair: 0.0001, Sequence: 0.001},
	}
	var preemptions, near int
	for round := range 400 {
		c := engine.Config{
			Costs:            costs[round%len(costs)],
			BlockSize:        16,
			KVTokens:         16 * (30 + rnd.IntN(60)),
			MaxSeqs:          1 + rnd.IntN(8),
			MaxBatchedTokens: 8 + rnd.IntN(120),
			PublishEarly:     rnd.IntN(2) == 0,
		}
		if rnd.IntN(3) == 0 {
			c.Store = engine.NewStore(0, c.BlockSize)
		}
		conversations := rnd.IntN(3) == 0
		tr := randomTrace(rnd, 40, 16<<rnd.IntN(2), conversations)
		keepFitting(tr, c)
		replicas := 1 + rnd.IntN(3)
		p := serve(t, tr, c, replicas, rnd)
		preemptions += p.preemptions

		solo := Solo(tr, c)
		var sum time.Duration
		var cached, good int
		const ttft, tpot = 20 * time.Millisecond, 4 * time.Millisecond
		for i, o := range p.outcomes {
			s := solo[i]
			// What others compute while a request waits is out of reach without a store.
			if o.cached > s.Found && c.Store == nil {
				t.Fatalf("round %d: request %d found %d tokens, more than there can be, %d", round, i, o.cached, s.Found)
			}
			if o.ttft < s.TTFT || o.e2e < s.E2E || o.e2e-o.ttft < s.E2E-s.TTFT-1 {
				t.Fatalf("round %d: request %d took %v and %v, faster than alone: %+v", round, i, o.ttft, o.e2e, s)
			}
			if o.ttft-s.TTFT < 10*time.Microsecond {
				near++
			}
			sum += o.ttft
			cached += o.cached
			took := Times{TTFT: o.ttft, E2E: o.e2e}
			if took.TTFT <= ttft && took.TPOT(tr.Requests[i].Output) <= tpot {
				good++
			}
		}
		n := len(tr.Requests)
		if mean, least := sum/time.Duration(n), LowerMeanTTFT(tr, c, replicas); mean < least {
			t.Fatalf("round %d: mean time to first token of %v, below the bound of %v", round, mean, least)
		}
		if got, most := float64(good)/float64(n), Goodput(tr, c, replicas, ttft, tpot); got > most {
			t.Fatalf("round %d: goodput of %v, above the bound of %v", round, got, most)
		}
		if !conversations {
			if share(tr, cached) > Hits(tr) {
				t.Fatalf("round %d: hit ratio of %v, above %v", round, share(tr, cached), Hits(tr))
			}
			work := LoadFactor(tr, c, replicas) * float64(duration(tr))
			if took := p.end - tr.Requests[0].At; float64(took) < work {
				t.Fatalf("round %d: all done after %v, though there is work for %v", round, took, time.Duration(work))
			}
		}
	}
	if near < 1000 || preemptions < 200 {
		t.Errorf("%d requests came near the bound and %d were preempted; want 1000 and 200, or the loads test nothing", near, preemptions)
	}
}

// keepFitting shortens answers and prompts that the engine would refuse.
func keepFitting(tr *trace.Trace, c engine.Config) {
	room := c.KVTokens / c.BlockSize * c.BlockSize
	for i := range tr.Requests {
		r := &tr.Requests[i]
		r.Input = min(r.Input, room-r.Output)
		r.Blocks = r.Blocks[:min(len(r.Blocks), (r.Input+r.Output+tr.Block-1)/tr.Block)]
	}
}
