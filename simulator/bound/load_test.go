package bound

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

func TestLoadFactor(t *testing.T) {
	c := perToken()
	c.MaxSeqs = 4
	c.Costs = engine.Costs{Base: 2, Floor: 50, Weights: 6, Token: 1, Pair: 0.01, Context: 0.001, Sequence: 0.5}
	tr := &trace.Trace{Requests: []trace.Request{
		{Input: 100, Output: 1},
		{At: time.Second, Input: 200, Output: 11},
	}}
	// Prefill: 100 + 200 for tokens, 0.01 (100² + 200²)/2 for pairs. Decoding: ten
	// steps at 1 + 0.5 + (2+6)/4, and contexts of 200 to 209 tokens.
	ms := 300. + 250 + 10*3.5 + 0.001*2045
	if got, want := LoadFactor(tr, c, 2), ms/2000; math.Abs(got-want) > 1e-9 {
		t.Errorf("load factor of %v, want %v", got, want)
	}
	if got, want := MaxRate(tr, c, 2), 2000/ms; math.Abs(got-want) > 1e-9 {
		t.Errorf("max rate of %v, want %v", got, want)
	}
	tooLong := slices.Insert(slices.Clone(tr.Requests), 1, trace.Request{At: 1, Input: c.KVTokens, Output: 2})
	if got, want := LoadFactor(&trace.Trace{Requests: tooLong}, c, 2), ms/2000; math.Abs(got-want) > 1e-9 {
		t.Errorf("load factor of %v with a request that no engine takes, want %v", got, want)
	}
	if got, want := LoadFactor(tr.Speed(3), c, 2), 3*ms/2000; math.Abs(got-want) > 1e-6 {
		t.Errorf("at three times the speed the load factor is %v, want %v", got, want)
	}
}

func TestNoRateIsTooHighForThoseWhoWait(t *testing.T) {
	for name, tr := range map[string]*trace.Trace{
		"empty":       {},
		"one request": arrivals(arrival{0, 1000}),
		"one instant": arrivals(arrival{7, 1000}, arrival{7, 1000}),
		"conversation": {Requests: []trace.Request{
			{Input: 1000, Output: 1}, {At: 1, Input: 1000, Output: 1, Follows: 1},
		}},
	} {
		if got := LoadFactor(tr, perToken(), 1); got != 0 {
			t.Errorf("%s: load factor of %v, want 0", name, got)
		}
		if got := MaxRate(tr, perToken(), 1); !math.IsInf(got, 1) {
			t.Errorf("%s: max rate of %v, want no limit", name, got)
		}
	}
}

func TestGoodput(t *testing.T) {
	c := perToken()
	c.Costs.Base = 5 // a decoding step takes 6 ms
	for _, test := range []struct {
		name  string
		trace *trace.Trace
		want  float64
	}{
		{"nothing", arrivals(), 0},
		{"prompts too long for the limit", arrivals(arrival{0, 50}, arrival{1000, 200}, arrival{2000, 90}, arrival{3000, 96}), 0.5},
		{
			"an answer takes longer than its prompt",
			&trace.Trace{Requests: []trace.Request{
				{Input: 10, Output: 100},
				{At: time.Second, Input: 10, Output: 100_000},
			}},
			0.5, // the long one reads so much context that it is too slow
		},
		// All are able alone, but in the 100 ms after the burst there is time for
		// the three shortest.
		{"more than the pool can do", arrivals(arrival{0, 60}, arrival{0, 40}, arrival{0, 30}, arrival{0, 20}), 0.75},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := c
			c.Costs.Context = 0.0001
			if got := Goodput(test.trace, c, 1, 100*time.Millisecond, 10*time.Millisecond); got != test.want {
				t.Errorf("goodput of %v, want %v", got, test.want)
			}
		})
	}
}
