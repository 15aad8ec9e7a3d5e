package llmlb

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// Until answers have told how long the prompts of a model are, a prompt is as long
// as a sample of it says, and where there is none, as those of others say.
func TestPromptLengthBySample(t *testing.T) {
	english := answer{model: "m", bytes: 4400, prompt: 1000, ratio: 2, output: 9}
	silent := answer{model: "m", bytes: 4400, ratio: 2, output: 9} // tells no usage
	for _, tc := range []struct {
		name    string
		n       int
		answers []answer
		ask     Features
		want    int
	}{
		{"nothing known, no sample", 0, nil, Features{PromptBytes: 4000}, 1000},
		{"nothing known", 0, nil, Features{PromptBytes: 4000, Ratio: 2}, 2000},
		{"two answers are not believed", 2, []answer{english}, Features{PromptBytes: 4000, Ratio: 1.6}, 2500},
		{"usage is believed before samples", 3, []answer{english}, Features{PromptBytes: 4400, Ratio: 1.6}, 1000},
		{"no usage, its own sample", 9, []answer{silent}, Features{PromptBytes: 4000, Ratio: 1.6}, 2500},
		{"no usage, the samples of others", 9, []answer{silent}, Features{PromptBytes: 4000}, 2000},
		{"of the same model", 9, []answer{silent}, Features{Model: "other", PromptBytes: 4000}, 1000},
		{"of answers that were whole", 9, []answer{{model: "m", bytes: 4400, ratio: 2, output: 9, outcome: Truncated}}, Features{PromptBytes: 4000}, 1000},
		{"token ids stay counted", 0, nil, Features{PromptBytes: 8000, TokenIDs: 1000, Ratio: 2}, 3000},
		{"a sample beyond all bounds", 0, nil, Features{PromptBytes: 4000, Ratio: 1e-9}, 4000},
		{"on the other side", 0, nil, Features{PromptBytes: 12_000, Ratio: math.Inf(1)}, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, s := taught(t, tc.n, tc.answers...)
			c := NewCall(p, s, t0)
			if c.Features = tc.ask; c.Model == "" {
				c.Model = "m"
			}
			p.Calibrate(c)
			if c.InputTokens != tc.want {
				t.Errorf("%d tokens, want %d", c.InputTokens, tc.want)
			}
		})
	}
}

// A sample costs more than all else that is done for a request: none is taken once
// answers have told how long prompts are, and few where they never do.
func TestSamplesAreTakenWhileTheyTellMore(t *testing.T) {
	asks := func(p *Pool, model string, n int) (yes int) {
		for range n {
			if p.NeedsSample(model) {
				yes++
			}
		}
		return yes
	}
	for _, tc := range []struct {
		name    string
		n       int
		answers []answer
		want    int // of 160 requests
	}{
		{"nothing known", 0, nil, 160},
		{"two answers are not believed", 2, []answer{{model: "m", bytes: 4400, prompt: 1000}}, 160},
		{"known", 3, []answer{{model: "m", bytes: 4400, prompt: 1000}}, 0},
		{"another model's", 3, []answer{{model: "other", bytes: 4400, prompt: 1000}}, 160},
		{"no usage yet", 31, []answer{{model: "m", bytes: 4400, ratio: 4, output: 9}}, 160},
		{"never any usage", 32, []answer{{model: "m", bytes: 4400, ratio: 4, output: 9}}, 0},
	} {
		p, _ := taught(t, tc.n, tc.answers...)
		if got := asks(p, "m", 160); got != tc.want {
			t.Errorf("%s: %d of 160 prompts sampled, want %d", tc.name, got, tc.want)
		}
	}
	p, _ := taught(t, 40, answer{model: "m", bytes: 4400, ratio: 4, output: 9})
	if n := testing.AllocsPerRun(100, func() { p.NeedsSample("m") }); n > 0 {
		t.Errorf("asking allocates %v times", n)
	}
}

// What people send may change where no answer ever tells: a few more prompts are
// sampled after a quarter of an hour, and the mean follows.
func TestSamplesAreTakenAgain(t *testing.T) {
	without := answer{model: "m", bytes: 4400, output: 9}
	with := func(ratio float64) answer { a := without; a.ratio = ratio; return a }
	p, s := taught(t, 32, with(4))
	teach(p, s, t0.Add(14*time.Minute), without)
	if p.NeedsSample("m") {
		t.Error("a prompt is to be sampled though samples are fresh")
	}
	again := t0.Add(16 * time.Minute)
	teach(p, s, again, without)
	n := 0
	for ; n < 100 && p.NeedsSample("m"); n++ {
		teach(p, s, again, with(2))
	}
	if n != 8 {
		t.Errorf("%d more samples, want 8", n)
	}
	c := NewCall(p, s, again)
	c.Features = Features{Model: "m", PromptBytes: 4000}
	if p.Calibrate(c); c.InputTokens < 1100 || c.InputTokens > 1300 {
		t.Errorf("%d tokens in 4,000 bytes, want the mean of 4 and lately 2 bytes each", c.InputTokens)
	}
}

// Asking for models that nobody serves teaches nothing and forgets nothing.
func TestSamplesOfMadeUpModels(t *testing.T) {
	p, s := taught(t, 3, answer{model: "real", bytes: 3100, prompt: 1000})
	for i := range 2 * maxUses {
		name := fmt.Sprint("made up ", i)
		p.NeedsSample(name)
		c := NewCall(p, s, t0)
		c.Features = Features{Model: name, PromptBytes: 4000, Ratio: 2}
		p.Calibrate(c)
	}
	if len(p.uses) != 1 || p.NeedsSample("real") {
		t.Errorf("%d kinds of traffic kept, want the real one", len(p.uses))
	}
}

// One tenant's essays say nothing of the labels another asks for: neither is
// expected to be longer, or shorter, for what the other does.
func TestExpectedOutputIsEachTenantsOwn(t *testing.T) {
	label := answer{model: "m", tenant: "classifier", output: 4}
	essay := answer{model: "m", tenant: "writer", output: 4000}
	p, s := taught(t, 5, label)
	expect := func(tenant, model string) int {
		c := NewCall(p, s, t0)
		c.Tenant, c.Model, c.InputTokens = tenant, model, 1
		return c.ExpectedOutput()
	}
	for range 500 {
		teach(p, s, t0, essay)
	}
	if got := expect("classifier", "m"); got != 4 {
		t.Errorf("the classifier is expected to get %d tokens, want 4 as ever", got)
	}
	if got := expect("writer", "m"); got != 4000 {
		t.Errorf("the writer is expected to get %d tokens, want 4000", got)
	}
	for range 500 {
		teach(p, s, t0, label)
	}
	if got := expect("writer", "m"); got != 4000 {
		t.Errorf("after many labels the writer is expected to get %d tokens, want 4000", got)
	}
	if got := expect("writer", "other"); got != usualOutput {
		t.Errorf("of a new model the writer is expected to get %d tokens, want %d", got, usualOutput)
	}
}

// What encodes generates nothing, whatever its usage says, and so it does not make
// the answers of a model look short.
func TestEncodingTeachesNoOutput(t *testing.T) {
	p, s := taught(t, 5, answer{model: "m", output: 1000})
	for range 50 {
		teach(p, s, t0, answer{model: "m", bytes: 4400, prompt: 1000, output: 1, encodes: true})
	}
	c := NewCall(p, s, t0)
	c.Model, c.PromptBytes = "m", 4400
	if got := c.ExpectedOutput(); got != 1000 {
		t.Errorf("%d tokens expected, want 1000", got)
	}
	if p.Calibrate(c); c.InputTokens != 1000 {
		t.Errorf("a prompt of %d tokens, want 1000: encoding tells how long prompts are", c.InputTokens)
	}
	if _, output := p.EstimateErrors(); count(output) != 0 {
		t.Errorf("%d answers compared, want none", count(output))
	}
}

func count(h *Histogram) int {
	n, _, _ := h.Snapshot()
	return int(n)
}

// An operator sees how far off estimates were: what was believed when the call was
// placed, over what its whole answer told.
func TestEstimatesAreCompared(t *testing.T) {
	for _, tc := range []struct {
		name          string
		answer        answer
		estimated     int // of the prompt
		expected      int // of the answer
		input, output float64
	}{
		{"right", answer{prompt: 1000, bytes: 4000, output: 100}, 1000, 100, 1, 1},
		{"far too low", answer{prompt: 1000, bytes: 4000, output: 100}, 100, 10, 0.1, 0.1},
		{"far too high", answer{prompt: 100, bytes: 4000, output: 10}, 1000, 100, 10, 10},
		{"counted by events", answer{events: 50}, 1000, 100, 0, 2},
		{"never placed by it", answer{prompt: 1000, bytes: 4000, output: 100}, 1000, 0, 1, 0},
		{"token ids are no estimate", answer{prompt: 1000, bytes: 4000, ids: 1000, output: 100}, 1000, 100, 0, 1},
		{"text among them is", answer{prompt: 1000, bytes: 4001, ids: 1000, output: 100}, 500, 100, 0.5, 1},
		{"nothing told", answer{}, 1000, 100, 0, 0},
		{"not understood", answer{prompt: 1000, output: 100, opaque: true}, 1000, 100, 0, 0},
		{"cut off", answer{prompt: 1000, bytes: 4000, output: 100, outcome: Truncated}, 1000, 100, 0, 0},
		{"encoded", answer{prompt: 1000, bytes: 4000, output: 100, encodes: true}, 2000, 1, 2, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, s := taught(t, 0)
			tc.answer.model, tc.answer.estimated, tc.answer.expected = "m", tc.estimated, tc.expected
			teach(p, s, t0, tc.answer)
			in, out := p.EstimateErrors()
			for _, h := range []struct {
				name string
				h    *Histogram
				want float64
			}{{"input", in, tc.input}, {"output", out, tc.output}} {
				n, sum, buckets := h.h.Snapshot()
				if h.want == 0 {
					if n != 0 {
						t.Errorf("%s: %d compared, want none", h.name, n)
					}
					continue
				}
				if n != 1 || math.Abs(sum-h.want) > 1e-9 {
					t.Errorf("%s: %d compared, sum %v; want 1 of %v", h.name, n, sum, h.want)
				}
				for _, bound := range EstimateBounds {
					want := uint64(0)
					if bound >= h.want {
						want = 1
					}
					if buckets[bound] != want {
						t.Errorf("%s: %d up to %v, want %d", h.name, buckets[bound], bound, want)
					}
				}
			}
		})
	}
}
