package llmlb

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// chose records a choice as selection does.
func chose(p *Pool, s *Settings, sec float64, change func(*Pick)) {
	p.Lock()
	defer p.Unlock()
	k := p.NextPick()
	if s == nil {
		return // it was given up
	}
	k.At, k.Strategy, k.Delegated, k.Scorers = at(sec), s.Strategy, s.Delegated, s.Scorers
	if change != nil {
		change(k)
	}
}

// The newest choice stands first, and the oldest make room.
func TestExplainTellsTheLastChoicesNewestFirst(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 200} {
		p := NewPool("ring")
		s := bound(t, p, Member{Address: "a:1"})
		for i := range n {
			chose(p, s, float64(i), nil)
		}
		got := p.Explain()
		if len(got) != min(n, MaxPicks) {
			t.Errorf("%d choices: %d told, want %d", n, len(got), min(n, MaxPicks))
			continue
		}
		for i, k := range got {
			if want := at(float64(n - 1 - i)); !k.At.Equal(want) {
				t.Errorf("%d choices: number %d is of %v, want %v", n, i, k.At, want)
				break
			}
		}
	}
}

// A place in the ring is used again and again. Nothing of the choice before may
// show, and a place that was never filled in shows nothing.
func TestExplainMixesNoTwoChoices(t *testing.T) {
	p := NewPool("clean")
	s := bound(t, p, Member{Address: "a:1"})
	for range MaxPicks {
		chose(p, s, 0, func(k *Pick) { k.Model, k.Kept = "old", maxCandidates })
	}
	chose(p, s, 1, nil)
	chose(p, nil, 2, nil)
	got := p.Explain()
	if len(got) != MaxPicks-1 {
		t.Fatalf("%d choices, want %d: one place is empty", len(got), MaxPicks-1)
	}
	if got[0].Model != "" || len(got[0].Candidates) != 0 || got[0].Endpoint != "" {
		t.Errorf("%+v shows what was there before", got[0])
	}
}

// Each strategy shows the number that it went by, and only for the servers that
// it compared.
func TestExplainShowsWhatTheStrategyWentBy(t *testing.T) {
	scorers := []WeightedScorer{{Name: "queue", Weight: 0.35}, {Name: "prefix", Weight: 0.65}}
	for _, tc := range []struct {
		name        string
		settings    Settings
		cost, score bool
	}{
		{"work", Settings{Strategy: "work"}, true, false},
		{"prefix_spill", Settings{Strategy: "prefix_spill"}, false, false},
		{"weighted", Settings{Strategy: "weighted", Scorers: scorers}, false, true},
		{"a policy of Caddy's", Settings{Strategy: "round_robin", Delegated: true}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := NewPool("strategy")
			chose(p, &tc.settings, 0, func(k *Pick) {
				k.InputTokens, k.Kept, k.Of = 100, 3, 1000
				k.Decision = Decision{Reason: ReasonWarm, Matched: 80, Best: 90, Warm: 1, Predicted: 70 * time.Millisecond}
				c := &k.Candidates[0]
				c.Name, c.Predicted, c.Cost, c.Speed, c.Floor, c.Warm = "taken", 0.07, 0.25, 5000, 0.05, true
				c.Matched, c.KVUsage, c.RecentTTFT = 80, 0.5, 0.24
				c.Parts, c.Scores = [MaxScorers]float64{0.5, 1}, len(tc.settings.Scorers)
				k.Candidates[1].Name, k.Candidates[1].Barred = "out", "draining"
				k.Candidates[1].KVUsage, k.Candidates[1].RecentTTFT, k.Candidates[1].Matched = Unknown, Unknown, 90
				k.Candidates[2].Name, k.Candidates[2].Blind = "blind", true
			})
			k := p.Explain()[0]
			if k.Strategy != tc.settings.Strategy || k.Endpoint != "taken" || k.Decision != "warm" || k.Of != 1000 ||
				k.Matched != 80 || k.Best != 90 || k.Warm != 1 || k.Predicted != 70 || len(k.Candidates) != 3 {
				t.Errorf("choice is %+v", k)
			}
			taken, out, blind := k.Candidates[0], k.Candidates[1], k.Candidates[2]
			if taken.Uncached != 20 || *taken.Speed != 5000 || *taken.Floor != 50 || *taken.KVUsage != 0.5 || *taken.RecentTTFT != 240 {
				t.Errorf("taken: %+v", taken)
			}
			within(t, "predicted", *taken.Predicted, 70, 0.001)
			if tc.cost != (taken.Cost != nil) || tc.score != (taken.Score != nil) || tc.score != (k.Scorers != nil) {
				t.Errorf("cost %v score %v scorers %v", taken.Cost, taken.Score, k.Scorers)
			}
			if tc.cost {
				within(t, "cost", *taken.Cost, 250, 0.001)
			}
			if tc.score {
				within(t, "score", *taken.Score, 0.75, 0.001)
				if len(taken.Parts) != 2 || taken.Parts["queue"] != 0.5 || taken.Parts["prefix"] != 1 || k.Scorers[0] != (ScorerStatus{"queue", 0.35}) {
					t.Errorf("parts %v of %v", taken.Parts, k.Scorers)
				}
			}
			for _, c := range []CandidateStatus{out, blind} {
				if c.Predicted != nil || c.Speed != nil || c.Floor != nil || c.Cost != nil || c.Score != nil || c.Parts != nil {
					t.Errorf("%s was not compared: %+v", c.Endpoint, c)
				}
			}
			if out.Barred != "draining" || out.KVUsage != nil || out.RecentTTFT != nil || out.Uncached != 10 {
				t.Errorf("out: %+v", out)
			}
			if blind.Barred == "" {
				t.Errorf("blind: %+v, want why it was left out", blind)
			}
		})
	}
}

// When all servers are over kv_limit one is taken all the same, and shows both
// why it should not have been and what was predicted.
func TestExplainShowsWhatWasWaived(t *testing.T) {
	p := NewPool("waived")
	chose(p, &Settings{Strategy: "work"}, 0, func(k *Pick) {
		k.Kept = 1
		k.Candidates[0].Barred, k.Candidates[0].Predicted, k.Candidates[0].Cost = "over kv_limit", 0.1, 0.1
	})
	if c := p.Explain()[0].Candidates[0]; c.Barred != "over kv_limit" || c.Predicted == nil || c.Cost == nil {
		t.Errorf("%+v", c)
	}
}

// Whatever a choice was made of, it can be told in JSON; and a model's name,
// which any client can make as long as a body, does not fill the answer.
func TestExplainIsAlwaysJSON(t *testing.T) {
	p := NewPool("odd")
	for i, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, s := range []*Settings{{Strategy: "work"}, {Strategy: "weighted", Scorers: []WeightedScorer{{Name: "queue"}}}} {
			chose(p, s, float64(i), func(k *Pick) {
				k.Model, k.Kept = strings.Repeat("ö", 1<<20), 1
				c := &k.Candidates[0]
				c.Predicted, c.Cost, c.Speed, c.Floor, c.Scores = 1, x, x, x, MaxScorers
			})
		}
	}
	got := p.Explain()
	body, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if len(body) > 10_000 {
		t.Errorf("%d bytes of JSON", len(body))
	}
	if m := got[0].Model; !strings.HasPrefix(m, "öö") || !strings.HasSuffix(m, "ö…") || !utf8.ValidString(m) {
		t.Errorf("model %q is not cut between two letters", m)
	}
}
