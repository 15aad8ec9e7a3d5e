package llmlb

import (
	"testing"
	"time"
)

// The tokens of an attempt are what the engine said, and else what was estimated
// and seen. What was refused had none.
func TestTokensAreCounted(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		name    string
		outcome Outcome
		call    func(c *Call)
		want    TokenCounts
	}{
		{"all told", Served, func(c *Call) { c.PromptTokens, c.CachedTokens, c.OutputTokens = 100, 60, 7 }, TokenCounts{Hit: 60, Miss: 40, Output: 7}},
		{"the cache not told", Served, func(c *Call) { c.PromptTokens, c.OutputTokens = 100, 7 }, TokenCounts{Untold: 100, Output: 7}},
		{"more cached than there was", Served, func(c *Call) { c.PromptTokens, c.CachedTokens = 100, 160 }, TokenCounts{Hit: 100}},
		{"nothing told of a stream", Served, func(c *Call) { c.TokenEvents = 5 }, TokenCounts{Untold: 50, Output: 5}},
		{"nothing told of a whole answer", Served, func(c *Call) { c.AnswerBytes = 40 }, TokenCounts{Untold: 50, Output: 10}},
		{"an embedding", Served, func(c *Call) { c.Encodes, c.AnswerBytes = true, 4000 }, TokenCounts{Untold: 50}},
		{"a form with files in it", Served, func(c *Call) { c.Opaque = true }, TokenCounts{}},
		{"cut", Truncated, func(c *Call) { c.FirstToken, c.TokenEvents = now, 3 }, TokenCounts{Untold: 50, Output: 3}},
		{"left before the first token", ClientGone, func(*Call) {}, TokenCounts{}},
		{"left behind it", ClientGone, func(c *Call) { c.FirstToken, c.TokenEvents = now, 2 }, TokenCounts{Untold: 50, Output: 2}},
		{"the client's mistake", Served, func(c *Call) { c.Status = 400 }, TokenCounts{}},
		{"a failure", EngineError, func(c *Call) { c.PromptTokens = 100 }, TokenCounts{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := NewPool("p")
			p.Lock()
			e := p.endpoint("a:1", "a")
			lease := p.Reserve(e, now, Work{Uncached: 50, Output: 10})
			p.Unlock()
			c := NewCall(p, &Settings{}, now)
			c.InputTokens, c.Lease = 50, lease
			tc.call(c)
			c.EndAttempt(now, tc.outcome)
			if got := e.Tokens(); got != tc.want {
				t.Errorf("counted %+v, want %+v", got, tc.want)
			}
		})
	}
}

// Tokens that come together share the time since those before.
func TestGapsBetweenTokens(t *testing.T) {
	p := NewPool("p")
	e := p.endpoint("a:1", "a")
	e.ObserveGap(40*time.Millisecond, 1)
	e.ObserveGap(40*time.Millisecond, 4)
	e.ObserveGap(time.Second, 0)
	count, sum, buckets := e.ITL.Snapshot()
	if count != 5 || sum < 0.0799 || sum > 0.0801 || buckets[0.01] != 4 || buckets[0.05] != 5 {
		t.Errorf("%d gaps of %vs, %v", count, sum, buckets)
	}
}

// Every event of every stream is counted: that takes no memory.
func TestGapsTakeNoMemory(t *testing.T) {
	e := NewPool("p").endpoint("a:1", "a")
	if n := testing.AllocsPerRun(100, func() { e.ObserveGap(20*time.Millisecond, 1) }); n > 0 {
		t.Errorf("%v allocations for a gap", n)
	}
}

func BenchmarkObserveGap(b *testing.B) {
	e := NewPool("p").endpoint("a:1", "a")
	for b.Loop() {
		e.ObserveGap(20*time.Millisecond, 1)
	}
}
