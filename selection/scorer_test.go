package selection

import (
	"math"
	"slices"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// What each scorer says, as the reference tells it. Where nothing is known the
// opinion is an ordinary one.
func TestScorers(t *testing.T) {
	heavy, budget := &llmlb.Member{Weight: 2}, &llmlb.Member{MaxTokens: 10_000, Weight: 2}
	for _, tc := range []struct {
		name   string
		scorer llmlb.Scorer
		view   llmlb.View
		want   float64
	}{
		{"queue: empty", new(Queue), llmlb.View{}, 1},
		{"queue: one waits", new(Queue), llmlb.View{Waiting: 1}, 0.8},
		{"queue: four wait", new(Queue), llmlb.View{Waiting: 4}, 0.5},
		{"queue: twelve wait", new(Queue), llmlb.View{Waiting: 12}, 0.25},
		{"queue: four wait, at twice the weight", new(Queue), llmlb.View{Waiting: 4, Member: heavy}, 2. / 3},
		{"queue: a batch of 32", new(Queue), llmlb.View{Running: 32}, 0.5},
		{"kv_memory: empty", new(KVMemory), llmlb.View{KVUsage: 0}, 1},
		{"kv_memory: three quarters full", new(KVMemory), llmlb.View{KVUsage: 0.75}, 0.25},
		{"kv_memory: not told", new(KVMemory), llmlb.View{KVUsage: llmlb.Unknown}, 0.5},
		{"prefix: nothing", new(Prefix), llmlb.View{}, 0},
		{"prefix: half", new(Prefix), llmlb.View{Matched: 500}, 0.5},
		{"prefix: all", new(Prefix), llmlb.View{Matched: 1000}, 1},
		{"token_budget: idle", new(TokenBudget), llmlb.View{}, 1},
		{"token_budget: half of 128 Ki", new(TokenBudget), llmlb.View{PrefillTokens: 60_000, OutputTokens: 5_536}, 0.5},
		{"token_budget: half of 128 Ki, at twice the weight", new(TokenBudget), llmlb.View{PrefillTokens: 60_000, OutputTokens: 5_536, Member: heavy}, 0.75},
		{"token_budget: a quarter of the KV memory", new(TokenBudget), llmlb.View{PrefillTokens: 10_000, KVCapacity: 40_000, KVUsage: 0.9}, 0.75},
		{"token_budget: of max_tokens before that", new(TokenBudget), llmlb.View{PrefillTokens: 2_500, KVCapacity: 40_000, Member: budget}, 0.75},
		{"token_budget: beyond", new(TokenBudget), llmlb.View{PrefillTokens: 20_000, Member: budget}, -1},
		{"errors: none", new(Errors), llmlb.View{}, 1},
		{"errors: one in five", new(Errors), llmlb.View{ErrorRate: 0.2}, 0.512},
		{"errors: all", new(Errors), llmlb.View{ErrorRate: 1}, 0},
		{"latency: seen", new(Latency), llmlb.View{RecentTTFT: 0.5, Predicted: 9}, 0.5},
		{"latency: predicted", new(Latency), llmlb.View{RecentTTFT: llmlb.Unknown, Predicted: 2}, 0.2},
		{"session: home", new(Session), llmlb.View{Home: true}, 1},
		{"session: elsewhere", new(Session), llmlb.View{}, 0},
	} {
		c := &llmlb.Call{Features: llmlb.Features{InputTokens: 1000}}
		if got := tc.scorer.Score(c, &tc.view); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
	if got := new(Prefix).Score(new(llmlb.Call), new(llmlb.View)); got != 0 {
		t.Errorf("prefix of a request without a prompt: got %v, want 0", got)
	}
}

// A build has the scorers that the reference lists.
func TestScorersAreRegistered(t *testing.T) {
	want := []string{"errors", "kv_memory", "latency", "prefix", "queue", "session", "token_budget"}
	have := ScorerNames()
	for _, name := range want {
		if !slices.Contains(have, name) {
			t.Errorf("no scorer %s in %v", name, have)
		}
	}
}
