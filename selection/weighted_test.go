package selection

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// says is a scorer that says what the test wants of each address.
type says map[string]float64

func (s says) Score(_ *llmlb.Call, v *llmlb.View) float64 { return s[v.Endpoint.Address()] }

func (w *world) weigh(scorers ...llmlb.WeightedScorer) {
	w.settings.Strategy, w.settings.Scorers = StrategyWeighted, scorers
}

// choosing sets the strategy, with its own defaults.
func (w *world) choosing(strategy string) {
	w.settings.Strategy, w.settings.Scorers = strategy, nil
	if strategy == StrategyWeighted {
		w.settings.Scorers = DefaultScorers()
	}
}

// The scores count by their weights, and the highest mean wins.
func TestWeightsOfScorersAreRespected(t *testing.T) {
	list := addresses(2)
	a, b := list[0], list[1]
	for _, tc := range []struct {
		weight float64 // of the opinion for a, beside one of weight 1 for b
		want   string
	}{{0.5, b}, {0.9, b}, {1.2, a}, {3, a}} {
		w := newWorld(t, list...)
		w.scrapeAll(0, 0, 0)
		w.weigh(
			llmlb.WeightedScorer{Name: "for_a", Weight: tc.weight, Scorer: says{a: 1, b: 0.2}},
			llmlb.WeightedScorer{Name: "for_b", Weight: 1, Scorer: says{a: 0.1, b: 0.9}},
		)
		for i := range 8 {
			if c := w.grant(prompt(part{fmt.Sprint("prompt ", i), 100})); where(c) != tc.want {
				t.Errorf("weight %v: call %d went to %s, want %s", tc.weight, i, where(c), tc.want)
			}
		}
	}
}

// A scorer that is broken has no more say than its weight, and what it said is
// shown as it counted.
func TestAScorerCannotOutvoteTheOthers(t *testing.T) {
	list := addresses(2)
	a, b := list[0], list[1]
	for _, tc := range []struct {
		name    string
		a, b    float64
		counted [2]float64 // for a and b
	}{
		{"50", 50, 0, [2]float64{1, 0}},
		{"infinite", math.Inf(1), 0, [2]float64{1, 0}},
		{"NaN", 0.5, math.NaN(), [2]float64{0.5, 0}},
		{"below 0", 0.5, -1, [2]float64{0.5, 0}},
		{"minus infinity", 0.5, math.Inf(-1), [2]float64{0.5, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, list...)
			w.scrapeAll(0, 0, 0)
			w.weigh(
				llmlb.WeightedScorer{Name: "broken", Weight: 1, Scorer: says{a: tc.a, b: tc.b}},
				llmlb.WeightedScorer{Name: "sound", Weight: 3, Scorer: says{a: 0.1, b: 0.9}},
			)
			if c := w.grant(prompt(part{"prompt", 100})); where(c) != b {
				t.Errorf("went to %s, want %s", where(c), b)
			}
			pick := w.pool.Explain()[0]
			if len(pick.Scorers) != 2 || pick.Scorers[1].Name != "sound" || pick.Scorers[1].Weight != 3 {
				t.Errorf("scorers shown as %+v", pick.Scorers)
			}
			for i, want := range []struct {
				name  string
				parts [2]float64
			}{{w.endpoint(b).Name(), [2]float64{tc.counted[1], 0.9}}, {w.endpoint(a).Name(), [2]float64{tc.counted[0], 0.1}}} {
				c := pick.Candidates[i]
				score := (want.parts[0] + 3*want.parts[1]) / 4
				if c.Endpoint != want.name || c.Parts["broken"] != want.parts[0] || c.Parts["sound"] != want.parts[1] ||
					c.Score == nil || math.Abs(*c.Score-score) > 1e-9 {
					t.Errorf("candidate %d: %+v, want %+v and score %v", i, c, want, score)
				}
			}
		})
	}
}

// A scorer that panics fails its own call. The pool goes on.
func TestAScorerThatPanicsLeavesThePoolUsable(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	w.weigh(llmlb.WeightedScorer{Name: "broken", Weight: 1, Scorer: panics{}})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is hidden")
			}
		}()
		Grant(w.call(prompt(part{"prompt", 100})), w.now)
	}()
	w.weigh(DefaultScorers()...)
	w.grant(prompt(part{"prompt", 100}))
}

type panics struct{}

func (panics) Score(*llmlb.Call, *llmlb.View) float64 { panic("broken") }

// The reasons are those of every strategy.
func TestReasonsOfWeightedChoices(t *testing.T) {
	list := addresses(3)
	w := newWorld(t, list...)
	w.weigh(DefaultScorers()...)
	w.scrapeAll(0, 0, 0)
	preamble := part{"preamble", 2000}
	home, d := w.serve(prompt(preamble, part{"first", 40}))
	if d.Reason != llmlb.ReasonCold {
		t.Errorf("the first is %v, want cold", d.Reason)
	}
	w.scrapeAll(0, 0, 0)
	if a, d := w.serve(prompt(preamble, part{"second", 40})); a != home || d.Reason != llmlb.ReasonWarm {
		t.Errorf("the second went to %s (%v), want %s (warm)", a, d.Reason, home)
	}
	w.weigh(
		llmlb.WeightedScorer{Name: "queue", Weight: 2, Scorer: new(Queue)},
		llmlb.WeightedScorer{Name: "prefix", Weight: 1, Scorer: new(Prefix)},
	)
	w.scrape(home, 20, 40, 0.5)
	if a, d := w.serve(prompt(preamble, part{"third", 40})); a == home || d.Reason != llmlb.ReasonSpillLoad {
		t.Errorf("with 40 waiting at %s the third went to %s (%v), want spill:load", home, a, d.Reason)
	}
	w.only(home)
	if _, d := w.serve(prompt(preamble, part{"fourth", 40})); d.Reason != llmlb.ReasonOnly {
		t.Errorf("the fourth is %v, want only", d.Reason)
	}
}

// In a burst the metrics stand still and many servers score alike: calls that no
// server holds anything of are spread, whatever else is sent among them.
func TestEqualScoresInABurstSpread(t *testing.T) {
	for _, tc := range []struct {
		strategy, order string
		warm            func(i int, random uint64) bool
	}{
		{StrategyWeighted, "warm first", func(i int, _ uint64) bool { return i < 40 }},
		{StrategyWeighted, "cold first", func(i int, _ uint64) bool { return i >= 40 }},
		{StrategyWeighted, "in turns", func(i int, _ uint64) bool { return i%2 == 0 }},
		{StrategyWeighted, "mixed", func(_ int, random uint64) bool { return random%2 == 0 }},
		{StrategyWork, "warm first", func(i int, _ uint64) bool { return i < 40 }},
		{StrategyWork, "cold first", func(i int, _ uint64) bool { return i >= 40 }},
		{StrategyWork, "in turns", func(i int, _ uint64) bool { return i%2 == 0 }},
		{StrategyWork, "mixed", func(_ int, random uint64) bool { return random%2 == 0 }},
	} {
		for _, tokens := range []int{40, 1000} {
			t.Run(fmt.Sprint(tc.strategy, ", ", tc.order, ", ", tokens, " tokens"), func(t *testing.T) {
				for seed := range 20 {
					spreadsABurst(t, uint64(seed), tokens, tc.strategy, tc.warm)
				}
			})
		}
	}
}

// spreadsABurst sends 40 calls whose prefix every server holds and 40 that are
// new, in the order given.
func spreadsABurst(t *testing.T, seed uint64, tokens int, strategy string, isWarm func(i int, random uint64) bool) {
	list := addresses(4)
	w := newWorld(t, list...)
	for i := range w.settings.Members {
		w.settings.Members[i].MaxConcurrent = 20
	}
	w.choosing(strategy)
	everywhere := prompt(part{fmt.Sprint(seed, " everywhere"), 1000})
	for _, a := range list {
		w.only(a)
		w.serve(everywhere)
	}
	w.only(list...)
	w.scrapeAll(0, 0, 0)
	warm, cold, r := 0, map[string]int{}, seed+1
	for i := range 80 {
		r = mix(r + 1)
		if warm == 40 || i-warm < 40 && !isWarm(i, r) {
			cold[where(w.grant(prompt(part{fmt.Sprint(seed, " new ", i), tokens})))]++
			continue
		}
		w.grant(everywhere)
		warm++
	}
	least, most := 80, 0
	for _, a := range list {
		least, most = min(least, cold[a]), max(most, cold[a])
	}
	// By cost it is all requests that spread: those that are new go where those that
	// are not are few.
	even := 4
	if strategy == StrategyWork {
		even = 17
	}
	if most-least > even || most > 18 {
		t.Errorf("seed %d: calls without a cached prefix went %v", seed, cold)
	}
}

// Weighted does not weld a hot prefix to one server either.
func TestAHotPrefixSpreadsWhenItsHomeIsCrowded(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	w.weigh(DefaultScorers()...)
	w.scrapeAll(0, 0, 0)
	hot := prompt(part{"the same for all", 1000}, part{"tail", 20})
	home, _ := w.serve(hot)
	w.now = w.now.Add(time.Second)
	w.scrapeAll(0, 0, 0)
	got := map[string]int{}
	for range 200 {
		c := w.grant(hot)
		c.SawFirstToken(w.now)
		got[where(c)]++
	}
	if got[home] == 200 {
		t.Errorf("all 200 went to %s", home)
	}
}

// A server without numbers is as good as the others on average, whatever the
// scorers: it neither draws the work nor goes without.
func TestScorersTakeAnUnknownServerForAnOrdinaryOne(t *testing.T) {
	for seed := range 20 {
		w := newWorld(t, addresses(2)...)
		w.weigh(
			llmlb.WeightedScorer{Name: "queue", Weight: 2, Scorer: new(Queue)},
			llmlb.WeightedScorer{Name: "token_budget", Weight: 1, Scorer: new(TokenBudget)},
			llmlb.WeightedScorer{Name: "errors", Weight: 1, Scorer: new(Errors)},
		)
		w.scrape(addresses(2)[1], 20, 5, llmlb.Unknown) // the first has told nothing
		got := map[string]int{}
		for i := range 20 {
			got[where(w.grant(prompt(part{fmt.Sprint(seed, i), 400})))]++
		}
		w.within(got, 5, 15)
	}
}

// An endpoint of twice the weight is the home of twice as many conversations,
// and under load gets twice the calls.
func TestAnEndpointsWeight(t *testing.T) {
	for _, strategy := range []string{StrategyWork, StrategyWeighted} {
		world := func(t *testing.T) (*world, string, string) {
			w := newWorld(t, addresses(2)...)
			w.choosing(strategy)
			w.settings.Members[0].Weight = 2
			return w, addresses(2)[0], addresses(2)[1]
		}
		about := func(t *testing.T, got map[string]int, a, b string) {
			t.Helper()
			if ratio := float64(got[a]) / float64(max(1, got[b])); ratio < 1.6 || ratio > 2.5 {
				t.Errorf("split %v, want about 2 : 1", got)
			}
		}
		t.Run(strategy+" one at a time", func(t *testing.T) {
			w, a, b := world(t)
			got := map[string]int{}
			for i := range 900 {
				w.scrapeAll(0, 0, 0)
				to, _ := w.serve(prompt(part{fmt.Sprint("conversation ", i), 200}))
				got[to]++
			}
			about(t, got, a, b)
		})
		t.Run(strategy+" under load", func(t *testing.T) {
			w, a, b := world(t)
			w.scrapeAll(0, 0, 0)
			got, tokens := map[string]int{}, map[string]int{}
			for i := range 60 {
				c := w.grant(prompt(part{fmt.Sprint("call ", i), 1000}))
				got[where(c)]++
				tokens[where(c)] += c.Lease.Uncached()
			}
			about(t, got, a, b)
			about(t, tokens, a, b)
		})
	}
}

// Servers of this zone come first. The others are left to last: they get what
// this zone cannot take, and no more.
func TestTheLocalZoneIsPreferred(t *testing.T) {
	list := addresses(4)
	for _, strategy := range Strategies() {
		t.Run(strategy, func(t *testing.T) {
			w := newWorld(t, list...)
			w.choosing(strategy)
			w.settings.Zone = "a"
			for i, zone := range []string{"a", "a", "b", ""} { // no zone is every zone
				w.settings.Members[i].Zone, w.settings.Members[i].MaxConcurrent = zone, 5
			}
			w.scrapeAll(0, 0, 0)
			w.scrape(list[0], 8, 2, 0.5) // busy, but here
			got := map[string]int{}
			for i := range 15 {
				got[where(w.grant(prompt(part{fmt.Sprint("call ", i), 100})))]++
			}
			if got[list[2]] != 0 || got[list[0]] != 5 || got[list[1]] != 5 || got[list[3]] != 5 {
				t.Errorf("while this zone has room: %v", got)
			}
			for i := range 5 {
				if to := where(w.grant(prompt(part{fmt.Sprint("more ", i), 100}))); to != list[2] {
					t.Errorf("with this zone full a call went to %s", to)
				}
			}
			if v := Grant(w.call(prompt(part{"one too many", 100})), w.now); v != Full {
				t.Errorf("verdict %v, want Full", v)
			}
		})
	}
}

// A budget of tokens holds, and a call that is larger than all of it is served
// when it is alone.
func TestMaxTokensHolds(t *testing.T) {
	w := newWorld(t, addresses(1)...)
	w.settings.Members[0].MaxTokens = 5000
	var open []*llmlb.Call
	for i := range 10 {
		c := w.call(prompt(part{fmt.Sprint("call ", i), 1000}))
		if v := Grant(c, w.now); v == Full {
			break
		}
		open = append(open, c)
	}
	w.pool.Lock()
	prefill, output := w.endpoint(addresses(1)[0]).Ledger().TokensInFlight()
	w.pool.Unlock()
	if len(open) != 3 || prefill+output > 5000 {
		t.Errorf("%d calls with %d tokens are open, want 3 within 5,000", len(open), prefill+output)
	}
	large := prompt(part{"large", 9000})
	if v := Grant(w.call(large), w.now); v != Full {
		t.Errorf("a large call beside others: %v, want Full", v)
	}
	for _, c := range open {
		c.EndAttempt(w.now, llmlb.Served)
	}
	if v := Grant(w.call(large), w.now); v != Granted {
		t.Errorf("a large call alone: %v, want Granted", v)
	}
}

// Choosing by scorers allocates nothing more than any choice.
func TestWeightedChoicesAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	allocs := func(strategy string) float64 {
		w := newWorld(t, addresses(32)...)
		w.choosing(strategy)
		w.scrapeAll(0, 0, 0)
		f := prompt(part{"question", 800})
		return testing.AllocsPerRun(200, func() {
			c := w.grant(f)
			c.EndAttempt(w.now, llmlb.ClientGone)
		})
	}
	if work, weighted := allocs(StrategyWork), allocs(StrategyWeighted); weighted > work {
		t.Errorf("weighted makes %v allocations a choice, work %v", weighted, work)
	}
}
