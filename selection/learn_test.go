package selection

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// answered serves a Call whose engine tells how many prompt tokens it found in
// its cache.
func (w *world) answered(f llmlb.Features, cached int) (address string, d llmlb.Decision) {
	w.t.Helper()
	c := w.grant(f)
	address = where(c)
	w.now = w.now.Add(100 * time.Millisecond)
	c.SawFirstToken(w.now)
	c.Status, c.PromptTokens, c.CachedTokens, c.OutputTokens = 200, f.InputTokens, cached, 20
	c.EndAttempt(w.now, llmlb.Served)
	return address, c.Decision
}

// An engine whose prefix cache is off, or has lost the prompt, says so in its
// answer. A gateway that does not listen pins conversations for nothing.
func TestAHitThatWasNoneIsTakenBack(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	preamble := prompt(part{"preamble", 2000})
	w.answered(preamble, 0) // new to all: says nothing
	if _, d := w.answered(preamble, 2000); d.Reason != llmlb.ReasonWarm || d.Matched < 1700 {
		t.Fatalf("the second time: %v, %d tokens matched; want warm", d.Reason, d.Matched)
	}
	if _, d := w.answered(preamble, 1200); d.Reason != llmlb.ReasonWarm {
		t.Fatalf("the third time: %v, want warm", d.Reason)
	}
	// More than half was there, so it was a hit: engines round, and we estimate.
	if _, d := w.answered(preamble, 0); d.Reason != llmlb.ReasonWarm {
		t.Fatalf("the fourth time: %v, want warm", d.Reason)
	}
	if _, d := w.answered(preamble, 0); d.Reason != llmlb.ReasonCold || d.Best != 0 {
		t.Errorf("after a hit that was none: %v, %d tokens believed; want cold", d.Reason, d.Best)
	}
}

// Part of a prefix may be there still: what the engine found stays believed.
func TestWhatTheEngineFoundStays(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	long := prompt(part{"document", 4000})
	w.answered(long, 0)
	w.answered(long, 1000)
	_, d := w.answered(long, 1000)
	if d.Best < 700 || d.Best > 1000 {
		t.Errorf("%d tokens are believed to be held, want about the 1,000 that were found", d.Best)
	}
}

// An engine that tells nothing, and a burst whose prefix is still being
// computed, are no reason to forget.
func TestNoCorrectionWithoutReason(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	p := prompt(part{"preamble", 2000})
	for range 3 {
		w.answered(p, llmlb.Unknown)
	}
	if _, d := w.answered(p, llmlb.Unknown); d.Reason != llmlb.ReasonWarm {
		t.Errorf("an engine that tells nothing: %v, want warm", d.Reason)
	}

	w = newWorld(t, addresses(2)...)
	first, second := w.grant(p), w.grant(p) // at once: the second finds a mark, not a cache
	for _, c := range []*llmlb.Call{first, second} {
		w.now = w.now.Add(100 * time.Millisecond)
		c.SawFirstToken(w.now)
		c.CachedTokens = 0
		c.EndAttempt(w.now, llmlb.Served)
	}
	if _, d := w.answered(p, 2000); d.Reason != llmlb.ReasonWarm {
		t.Errorf("after a burst: %v, want warm", d.Reason)
	}
}

// An engine keeps its answers in the same cache. Of five prompts of 2,000 tokens
// that are answered in 1,000 each it has lost the first where there is room for
// 11,000.
func TestAnswersPushPromptsOut(t *testing.T) {
	for _, tc := range []struct {
		answer int
		warm   bool
	}{{1000, false}, {10, true}} {
		w := newWorld(t, addresses(1)...)
		s := llmlb.NoSignals(w.now)
		s.Running, s.Waiting, s.KVCapacity = 0, 0, 11_000
		w.endpoint(w.settings.Members[0].Address).ObserveSignals(s)
		ask := func(text string) llmlb.Decision {
			f := prompt(part{text, 2000})
			f.MaxOutputTokens = 2 * tc.answer // of which half is expected
			c := w.grant(f)
			w.now = w.now.Add(time.Second)
			c.SawFirstToken(w.now)
			c.Status, c.OutputTokens = 200, tc.answer
			c.EndAttempt(w.now, llmlb.Served)
			return c.Decision
		}
		for _, text := range []string{"first", "second", "third", "fourth", "fifth"} {
			ask(text)
		}
		if d := ask("first"); (d.Best > 0) != tc.warm {
			t.Errorf("answers of %d tokens: %d tokens of the first prompt are believed to be there", tc.answer, d.Best)
		}
	}
}
