package e2e

import (
	"fmt"
	"math"
	"testing"
)

// What the admin API shows of the last request is what was decided, and the parts
// of a prediction, of a cost and of a score add up to it.
func TestAnExplanationAddsUp(t *testing.T) {
	g, list := trio(t, fast)
	list[1].set(load{running: 12, waiting: 3, kv: 0.4})
	list[1].seen()
	preamble := prose("explained", 8000)
	g.post(chat(true, preamble, "first"))
	r := g.post(chat(true, preamble, "second"))
	pick := g.explained()[0]
	if pick.Endpoint != r.endpoint() || pick.Decision != r.decision() || pick.Decision != "warm" ||
		fmt.Sprint(pick.Matched) != r.header.Get("X-LLM-Matched-Tokens") || pick.Strategy != "work" || pick.Model != "m" {
		t.Errorf("explained as %+v, the answer says %v", pick, r.header)
	}
	if pick.Of != 3 || len(pick.Candidates) != 3 || pick.Candidates[0].Endpoint != pick.Endpoint {
		t.Fatalf("candidates are %+v, want all three, the chosen one first", pick.Candidates)
	}
	least := *pick.Candidates[0].Cost
	for _, c := range pick.Candidates {
		if c.Matched+c.Uncached != pick.InputTokens {
			t.Errorf("%s: %d and %d tokens are not %d", c.Endpoint, c.Matched, c.Uncached, pick.InputTokens)
		}
		own := 1000 * float64(c.Effort) / *c.Speed
		ttft := *c.Floor + 1000*c.PrefillTokens / *c.Speed + own + 10*c.Waiting + c.LoadDelay
		if math.Abs(ttft-*c.Predicted) > 0.01 {
			t.Errorf("%s: the parts of the prediction make %.2f ms, not %.2f", c.Endpoint, ttft, *c.Predicted)
		}
		cost := ttft + own/2 + (0.1*c.Beginning+5e-6*c.Running*own)*own + 1e-3*(c.Context+6000*c.Running)
		if math.Abs(cost-*c.Cost) > 0.01 {
			t.Errorf("%s: the parts of the cost make %.2f ms, not %.2f", c.Endpoint, cost, *c.Cost)
		}
		if *c.Cost < least-0.03*least-8 {
			t.Errorf("%s is cheaper than the one chosen: %+v", c.Endpoint, pick.Candidates)
		}
	}
	for _, c := range pick.Candidates {
		// Others' load fades when a scrape is late.
		if c.Endpoint == "b" && (c.Waiting < 2 || c.Waiting > 3 || c.Running < 8 || c.Running > 12 || c.KVUsage == nil || *c.KVUsage != 0.4) {
			t.Errorf("the busy server is shown as %+v", c)
		}
	}

	if err := g.load(fmt.Sprintf("llm_proxy %s %s %s {\n%s%sstrategy weighted\nscorer queue 2\nscorer prefix 0.5\nscorer errors\n}\n",
		list[0].addr(), list[1].addr(), list[2].addr(), fast, named(list...))); err != nil {
		t.Fatal(err)
	}
	r = g.post(chat(false, preamble, "third"))
	pick = g.explained()[0]
	if pick.Strategy != "weighted" || pick.Endpoint != r.endpoint() || len(pick.Scorers) != 3 {
		t.Fatalf("explained as %+v", pick)
	}
	for _, c := range pick.Candidates {
		sum, weights := 0.0, 0.0
		for _, s := range pick.Scorers {
			part, said := c.Parts[s.Name]
			if !said || part < 0 || part > 1 {
				t.Errorf("%s: %s said %v", c.Endpoint, s.Name, part)
			}
			sum, weights = sum+s.Weight*part, weights+s.Weight
		}
		if c.Score == nil || math.Abs(*c.Score-sum/weights) > 1e-9 || weights != 3.5 || c.Cost != nil {
			t.Errorf("%s: score %v and cost %v of %v, want %v", c.Endpoint, c.Score, c.Cost, c.Parts, sum/weights)
		}
	}
}
