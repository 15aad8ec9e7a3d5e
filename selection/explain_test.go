package selection

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// An operator asks why a request went where it went, and finds the numbers that
// decided it.
func TestExplainingAPick(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	w.settings.Members[2].Drain = true
	w.pool.Start(w.settings, w.now)
	busy, idle := addresses(3)[0], addresses(3)[1]
	for range 2 {
		w.scrape(busy, 20, 4, 0.6)
		w.scrape(idle, 2, 0, 0.2)
	}
	p := prompt(part{"a question", 1000})
	p.Model = "m"
	c := w.grant(p)
	if where(c) != idle {
		t.Fatalf("went to %s", where(c))
	}
	picks := w.pool.Explain()
	if len(picks) != 1 {
		t.Fatalf("%d picks, want 1", len(picks))
	}
	k := picks[0]
	if k.Model != "m" || k.InputTokens != 1000 || k.Decision != "cold" || k.Of != 3 || k.Strategy != StrategyWork || len(k.Candidates) != 3 {
		t.Fatalf("pick is %+v", k)
	}
	first, second, third := k.Candidates[0], k.Candidates[1], k.Candidates[2]
	if first.Endpoint != k.Endpoint || first.Endpoint != w.endpoint(idle).Name() || second.Endpoint != w.endpoint(busy).Name() {
		t.Errorf("the order is %s, %s", first.Endpoint, second.Endpoint)
	}
	if second.Waiting != 4 || second.Running != 20 || *second.KVUsage != 0.6 || *first.Cost >= *second.Cost {
		t.Errorf("%+v and %+v", first, second)
	}
	if third.Barred == "" || third.Cost != nil {
		t.Errorf("the draining one: %+v", third)
	}
	// The parts make up the prediction that they explain.
	tokens := first.PrefillTokens + float64(first.Effort)
	if sum := *first.Floor + 1000*tokens / *first.Speed; math.Abs(sum-*first.Predicted) > 0.01 {
		t.Errorf("predicted %.2f ms, and its parts make %.2f", *first.Predicted, sum)
	}
}

// Of a large pool the best few are shown, the chosen one first, and of many
// choices the latest.
func TestExplanationsAreBounded(t *testing.T) {
	w := newWorld(t, addresses(200)...)
	for i, m := range w.settings.Members {
		w.scrape(m.Address, float64(i%40), float64(i%7), 0.3)
	}
	for i := range 100 {
		w.now = w.now.Add(time.Millisecond)
		w.grant(prompt(part{fmt.Sprint("question ", i), 500}))
	}
	picks := w.pool.Explain()
	if len(picks) != 64 || !picks[0].At.Equal(w.now) || !picks[1].At.Before(w.now) {
		t.Fatalf("%d picks, the newest of %v", len(picks), picks[0].At)
	}
	for _, k := range picks {
		if len(k.Candidates) != 8 || k.Of != 200 {
			t.Fatalf("%d candidates of %d", len(k.Candidates), k.Of)
		}
		for i := 2; i < len(k.Candidates); i++ {
			if *k.Candidates[i].Cost < *k.Candidates[i-1].Cost {
				t.Fatalf("candidates are out of order: %+v", k.Candidates)
			}
		}
	}
	// What generates nothing is not worth a place.
	w.grant(llmlb.Features{})
	if again := w.pool.Explain(); !again[0].At.Equal(picks[0].At) || again[0].InputTokens != picks[0].InputTokens {
		t.Error("a request for the list of models is among the choices")
	}
}
