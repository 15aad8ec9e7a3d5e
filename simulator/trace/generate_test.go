package trace

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

func must(t *testing.T) func(*Trace, error) *Trace {
	return func(tr *Trace, err error) *Trace {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		check(t, tr)
		return tr
	}
}

// ids counts the different ones.
func ids(tr *Trace) int {
	all := make(map[uint64]bool)
	for _, q := range tr.Requests {
		for _, id := range q.Blocks {
			all[id] = true
		}
	}
	return len(all)
}

func TestGenerate(t *testing.T) {
	for _, name := range Generators() {
		t.Run(name, func(t *testing.T) {
			a := must(t)(Generate(name, 0, 1))
			if a.Name != name || a.Block != 16 {
				t.Errorf("named %q, with pieces of %d tokens", a.Name, a.Block)
			}
			if !reflect.DeepEqual(a, must(t)(Generate(name, 0, 1))) {
				t.Error("one seed gives two traces")
			}
			b := must(t)(Generate(name, 0, 2))
			both := &Trace{Requests: slices.Concat(a.Requests, b.Requests)}
			if ids(both) != ids(a)+ids(b) {
				t.Error("two seeds have prompts in common")
			}
			if a.Requests[0].At == b.Requests[0].At {
				t.Error("two seeds have an arrival in common")
			}
			// What comes when is the same at another rate, but for the rate.
			fast, slow := must(t)(Generate(name, 10, 1)), must(t)(Generate(name, 5, 1))
			if got := float64(slow.Stats().Span) / float64(fast.Stats().Span); math.Abs(got-2) > .001 {
				t.Errorf("at half the rate it takes %.3f times as long", got)
			}
		})
	}
	if _, err := Generate("lorem", 1, 1); err == nil || !strings.Contains(err.Error(), `unknown generator "lorem"; have gsp, b2b, multiturn`) {
		t.Errorf("got error %v", err)
	}
}

// Arrivals of a Poisson process have gaps whose deviation is their mean.
func TestGenerateArrivals(t *testing.T) {
	tr := must(t)(GSP(GSPOptions{Rate: 20, Prompts: 100, System: 16, Question: 1}))
	var sum, squares float64
	last := time.Duration(0)
	for _, q := range tr.Requests {
		gap := (q.At - last).Seconds()
		last = q.At
		sum += gap
		squares += gap * gap
	}
	n := float64(len(tr.Requests))
	mean := sum / n
	if cv := math.Sqrt(squares/n-mean*mean) / mean; math.Abs(mean-.05) > .002 || math.Abs(cv-1) > .05 {
		t.Errorf("gaps of %.4f s in the mean, of variation %.3f; want 0.05 and 1", mean, cv)
	}
}

func TestGSP(t *testing.T) {
	tr := must(t)(GSP(GSPOptions{Seed: 3}))
	if n := len(tr.Requests); n != 64*16 {
		t.Fatalf("%d requests, want 16 of each of 64 groups", n)
	}
	groups := make(map[uint64][]int)
	for i, q := range tr.Requests {
		if q.Input != 2048+128 || q.Output != 256 || q.Follows != 0 {
			t.Fatalf("request %d: %d tokens in, %d out", i, q.Input, q.Output)
		}
		groups[q.Blocks[0]] = append(groups[q.Blocks[0]], i)
	}
	together := 0
	for _, g := range groups {
		if len(g) != 16 {
			t.Fatalf("a group of %d, want 16", len(g))
		}
		if n := shared(tr.Requests[g[0]], tr.Requests[g[1]]); n != 2048/16 {
			t.Errorf("two of a group share %d pieces, want the system prompt's %d", n, 2048/16)
		}
		for i := range g[1:] {
			if g[i+1] == g[i]+1 {
				together++
			}
		}
	}
	if len(groups) != 64 {
		t.Errorf("%d groups, want 64", len(groups))
	}
	if together > 60 { // 15 are to be expected of chance, 960 without it
		t.Errorf("%d requests come straight after one of their group", together)
	}
	// 63 of 64 first pieces of a group are seen 15 of 16 times.
	if got, want := tr.Stats().Seen, 2048.0/2176*15/16; math.Abs(got-want) > 1e-9 {
		t.Errorf("%.4f seen before, want %.4f", got, want)
	}
	if n := ids(must(t)(GSP(GSPOptions{Groups: 2, Prompts: 3, System: -1, Question: 16}))); n != 6 {
		t.Errorf("without a system prompt %d different pieces, want 6", n)
	}
}

// A piece that holds the end of the system prompt and the begin of a question is
// that question's own.
func TestGSPStraddling(t *testing.T) {
	tr := must(t)(GSP(GSPOptions{Groups: 1, Prompts: 2, System: 40, Question: 24}))
	a, b := tr.Requests[0], tr.Requests[1]
	if len(a.Blocks) != 4 || shared(a, b) != 2 {
		t.Errorf("%d pieces, %d of them shared; want 4 and 2", len(a.Blocks), shared(a, b))
	}
}

func TestB2B(t *testing.T) {
	tr := must(t)(B2B(B2BOptions{Seed: 3, WarmRate: 15}))
	if n := len(tr.Requests); n != 750+1500 {
		t.Fatalf("%d requests, want one to warm up for each of 750 users, and 1500", n)
	}
	if got := 16 * ids(tr); got != 150*6000+750*1200 {
		t.Errorf("all prompts have %d tokens, want 1.8 million", got)
	}
	warm, stage := &Trace{Requests: tr.Requests[:750]}, &Trace{Block: 16, Requests: tr.Requests[750:]}
	if 16*ids(warm) != 150*6000+750*1200 {
		t.Error("warming up leaves prompts out")
	}
	if w, s := warm.Stats().Rate, stage.Stats().Rate; math.Abs(w-15) > 1.5 || math.Abs(s-60) > 5 {
		t.Errorf("warmed up at %.1f/s and asked at %.1f/s, want 15 and 60", w, s)
	}
	tenants := make(map[string]uint64)
	for i, q := range tr.Requests {
		if q.Input != 7200 || q.Output != 1000 {
			t.Fatalf("request %d: %d tokens in, %d out", i, q.Input, q.Output)
		}
		if was, known := tenants[q.Client]; known && was != q.Blocks[6000/16-1] {
			t.Fatalf("%s has two contexts", q.Client)
		}
		tenants[q.Client] = q.Blocks[6000/16-1]
	}
	if len(tenants) != 150 {
		t.Errorf("%d tenants, want 150", len(tenants))
	}
}

func TestB2BFresh(t *testing.T) {
	tr := must(t)(B2B(B2BOptions{Fresh: true, Requests: 100, Tenants: 2, Users: 1}))
	if got := 16 * ids(tr); got != 2*6000+100*1200 {
		t.Errorf("all prompts have %d tokens, want a query of its own for each", got)
	}
}

func TestMultiturn(t *testing.T) {
	tr := must(t)(Multiturn(MultiturnOptions{Seed: 3, Groups: 4}))
	var turns, follow, thought float64
	systems := make(map[uint64]bool)
	for i, q := range tr.Requests {
		turns++
		if q.Input+q.Output > 32_000 {
			t.Fatalf("request %d has %d tokens in all", i, q.Input+q.Output)
		}
		if len(q.Blocks) != (q.Input+q.Output)/16 {
			t.Fatalf("request %d of %d and %d tokens has %d pieces, want all full ones of prompt and answer", i, q.Input, q.Output, len(q.Blocks))
		}
		if q.Follows == 0 {
			systems[q.Blocks[1000/16-1]] = true
			continue
		}
		follow++
		thought += q.Think.Seconds()
		before := tr.Requests[i-q.Follows]
		if before.Client != q.Client || q.Input <= before.Input+before.Output || shared(before, q) != len(before.Blocks) {
			t.Fatalf("request %d is not the one before, its answer and a question", i)
		}
	}
	if turns-follow != 500 || len(systems) != 4 {
		t.Errorf("%v conversations of %d groups, want 500 of 4", turns-follow, len(systems))
	}
	if mean := turns / 500; math.Abs(mean-6) > .6 {
		t.Errorf("%.2f turns in the mean, want 6", mean)
	}
	if mean := thought / follow; math.Abs(mean-30) > 2 {
		t.Errorf("%.1f s of thought in the mean, want 30", mean)
	}
	if mean := tr.Stats().Output.Mean; math.Abs(mean-350) > 20 {
		t.Errorf("answers of %.1f tokens in the mean, want 350", mean)
	}
	// Different conversations have the system prompt in common and no more.
	a, b := tr.Requests[0], tr.Requests[0]
	for _, q := range tr.Requests[1:] {
		if q.Follows == 0 && q.Blocks[0] == a.Blocks[0] {
			b = q
			break
		}
	}
	if a.Client == b.Client || shared(a, b) != 1000/16 {
		t.Errorf("two conversations share %d pieces, want %d", shared(a, b), 1000/16)
	}
}

func TestMultiturnExtremes(t *testing.T) {
	tr := must(t)(Multiturn(MultiturnOptions{
		Conversations: 3, Turns: 1000, Think: -1, System: -1, Sigma: -1, Question: 10, Answer: 20, MaxContext: 100,
	}))
	// 30 tokens a turn: three whole ones, and one of what is left.
	if n := len(tr.Requests); n != 12 {
		t.Errorf("%d requests, want 4 for each conversation", n)
	}
	for i, q := range tr.Requests {
		if q.Think != 0 {
			t.Errorf("request %d after %s of thought", i, q.Think)
		}
	}
	if n := len(must(t)(Multiturn(MultiturnOptions{Turns: 1, Conversations: 7})).Requests); n != 7 {
		t.Errorf("%d requests in conversations of one turn, want 7", n)
	}
	must(t)(Multiturn(MultiturnOptions{Conversations: 50, Sigma: 5, System: 31_998, MaxContext: 32_000}))
}

// An engine that has answered a turn has the next one's prompt in its cache but
// for the question, and the part of a piece before that.
func TestMultiturnIsCached(t *testing.T) {
	tr := must(t)(Multiturn(MultiturnOptions{Conversations: 1, Turns: 50, Sigma: -1, Seed: 1}))
	cfg, _ := engine.Preset("8b-h100")
	r, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range tr.Requests[:5] {
		if err := r.Add(0, engine.Request{ID: uint64(i), Blocks: q.Blocks, Input: q.Input, Output: q.Output}); err != nil {
			t.Fatal(err)
		}
		var events []engine.Event
		for {
			if _, ok := r.Begin(0); !ok {
				break
			}
			events = r.End(events)
		}
		want := 0
		if i > 0 {
			// The last token of an answer has never been computed upon.
			before := tr.Requests[i-1]
			want = (before.Input + before.Output - 1) / 16 * 16
		}
		if got := events[0].Cached; got != want {
			t.Errorf("turn %d of %d tokens: %d cached, want %d", i, q.Input, got, want)
		}
	}
}

func TestGenerateRefuses(t *testing.T) {
	for want, err := range map[string]error{
		"generating gsp: question tokens -1 is not within 1 to": second(GSP(GSPOptions{Question: -1})),
		"output tokens 100000001 is not within":                 second(GSP(GSPOptions{Output: maxTokens + 1})),
		"generating gsp: rate -1 is not above 0":                second(GSP(GSPOptions{Rate: -1})),
		"rate NaN is not above 0":                               second(GSP(GSPOptions{Rate: math.NaN()})),
		"100000000 requests are more than":                      second(GSP(GSPOptions{Groups: 10_000, Prompts: 10_000})),
		"10000 requests of 1000128 tokens have more than":       second(GSP(GSPOptions{Groups: 100, Prompts: 100, System: 1_000_000})),
		"the last request would come too late":                  second(GSP(GSPOptions{Rate: 1e-9})),
		"generating b2b: users -3 is not within":                second(B2B(B2BOptions{Users: -3})),
		"rate -2 is not above 0":                                second(B2B(B2BOptions{WarmRate: -2})),
		"generating multiturn: think time 25h0m0s is more":      second(Multiturn(MultiturnOptions{Think: 25 * time.Hour})),
		"sigma NaN is not within 0 to 5":                        second(Multiturn(MultiturnOptions{Sigma: math.NaN()})),
		"a system prompt of 999 tokens leaves no room in 1000":  second(Multiturn(MultiturnOptions{System: 999, MaxContext: 1000})),
		"context tokens 1 is not within 2 to":                   second(Multiturn(MultiturnOptions{System: -1, MaxContext: 1})),
		"groups 4000001 are more":                               second(Multiturn(MultiturnOptions{Groups: 4_000_001})),
		"100000 system prompts of 10000 tokens have more than":  second(Multiturn(MultiturnOptions{Groups: 100_000, System: 10_000})),
		"more than 100 requests or 1000000 pieces":              second(multiturn(MultiturnOptions{}, limits{rows: 100, ids: 1_000_000})),
		"more than 1000000 requests or 100 pieces":              second(multiturn(MultiturnOptions{}, limits{rows: 1_000_000, ids: 100})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q in it", err, want)
		}
	}
}

func second(_ *Trace, err error) error { return err }
