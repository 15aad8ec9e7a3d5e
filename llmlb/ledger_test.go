package llmlb

import (
	"testing"
	"time"
)

const (
	testInterval = time.Second
	testStale    = 5 * time.Second
)

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

func page(sec, running, waiting float64) Signals {
	s := NoSignals(at(sec))
	s.Running, s.Waiting = running, waiting
	return s
}

func TestOwnWorkIsNotCountedTwice(t *testing.T) {
	// The engine reports our own five requests as its own. The load must be
	// five, not ten.
	var l Ledger
	l.observe(page(0, 0, 0))
	for range 5 {
		l.reserve(Work{Uncached: 100, Output: 10})
	}
	l.observe(page(1, 4, 1))
	got := l.Load(at(1), testInterval, testStale, PriorSpeed)
	if got.Foreign != 0 || got.Own != 5 {
		t.Errorf("foreign %v own %v, want 0 and 5", got.Foreign, got.Own)
	}
	if got.PrefillTokens != 500 {
		t.Errorf("prefill tokens %v, want our own 500", got.PrefillTokens)
	}
}

func TestOwnWorkThatEndedBetweenScrapesIsNotTakenForOthers(t *testing.T) {
	// The scrape's numbers may be from before the call ended.
	var l Ledger
	l.observe(page(0, 0, 0))
	l.reserve(Work{Uncached: 100, Output: 10})
	l.firstToken(Work{Uncached: 100})
	l.release(Decode, Work{Uncached: 100, Output: 10})
	l.observe(page(1, 1, 0))
	if got := l.Load(at(1), testInterval, testStale, PriorSpeed); got.Foreign != 0 {
		t.Errorf("foreign %v, want 0", got.Foreign)
	}
	// The next scrape has no such excuse.
	l.observe(page(2, 1, 0))
	if got := l.Load(at(2), testInterval, testStale, PriorSpeed); got.Foreign != 1 {
		t.Errorf("foreign %v, want 1", got.Foreign)
	}
}

func TestOthersWaitingCountsAsPrefillWork(t *testing.T) {
	var l Ledger
	l.observe(page(0, 16, 3))
	got := l.Load(at(0), testInterval, testStale, PriorSpeed)
	if got.Waiting != 3 || got.Running != 16 {
		t.Errorf("waiting %v running %v, want 3 and 16", got.Waiting, got.Running)
	}
	if want := 3.0 * priorPrompt; got.PrefillTokens != want {
		t.Errorf("prefill tokens %v, want %v", got.PrefillTokens, want)
	}
	l.signals.WaitingTokens = 700 // SGLang tells tokens itself
	if got := l.Load(at(0), testInterval, testStale, PriorSpeed); got.PrefillTokens != 700 {
		t.Errorf("prefill tokens %v, want the engine's own 700", got.PrefillTokens)
	}
}

func TestForeignLoadFadesUntilStale(t *testing.T) {
	var l Ledger
	l.observe(page(0, 8, 0))
	for _, tc := range []struct {
		sec   float64
		want  float64
		blind bool
	}{
		{0, 8, false},
		{2, 8, false}, // full up to two intervals
		{3.5, 4, false},
		{5, 0, true},
		{60, 0, true},
	} {
		got := l.Load(at(tc.sec), testInterval, testStale, PriorSpeed)
		if got.Foreign != tc.want || got.Blind != tc.blind {
			t.Errorf("after %vs: foreign %v blind %v, want %v %v", tc.sec, got.Foreign, got.Blind, tc.want, tc.blind)
		}
	}
}

func TestNothingScrapedIsBlindNotIdle(t *testing.T) {
	var l Ledger
	got := l.Load(at(0), testInterval, testStale, PriorSpeed)
	if !got.Blind || got.KVUsage != Unknown {
		t.Errorf("%+v, want blind with unknown KV usage", got)
	}
}

func TestOwnCallsInTheBatchAreNotWaiting(t *testing.T) {
	// Eight answers without a stream give no first token, but the engine says
	// that nobody waits.
	var l Ledger
	for range 8 {
		l.reserve(Work{Uncached: 10, Output: 10})
	}
	if got := l.Load(at(0), testInterval, testStale, PriorSpeed); got.Waiting != 7 {
		t.Errorf("blind: waiting %v, want 7", got.Waiting)
	}
	l.observe(page(0, 8, 0))
	if got := l.Load(at(0), testInterval, testStale, PriorSpeed); got.Waiting != 0 || got.Running != 8 {
		t.Errorf("waiting %v running %v, want 0 and 8", got.Waiting, got.Running)
	}
	l.reserve(Work{Uncached: 10, Output: 10}) // the scrape cannot have seen this one
	if got := l.Load(at(0), testInterval, testStale, PriorSpeed); got.Waiting != 1 {
		t.Errorf("waiting %v, want 1", got.Waiting)
	}
}

func TestRestartIsSeenInCountersOrStartTime(t *testing.T) {
	base := page(0, 0, 0)
	base.PromptTokens, base.GenerationTokens, base.ProcessStart = 1000, 500, 1_700_000_000
	for name, change := range map[string]struct {
		f    func(*Signals)
		want bool
	}{
		"onwards":            {func(s *Signals) { s.PromptTokens = 1001 }, false},
		"prompt backwards":   {func(s *Signals) { s.PromptTokens = 5 }, true},
		"output backwards":   {func(s *Signals) { s.GenerationTokens = 5 }, true},
		"younger process":    {func(s *Signals) { s.ProcessStart += 60 }, true},
		"counter not told":   {func(s *Signals) { s.PromptTokens = Unknown }, false},
		"start time unknown": {func(s *Signals) { s.ProcessStart = Unknown }, false},
	} {
		var l Ledger
		l.observe(base)
		next := base
		next.At = at(1)
		change.f(&next)
		if got := l.observe(next); got != change.want {
			t.Errorf("%s: restarted %v, want %v", name, got, change.want)
		}
	}
}

func TestRatesComeFromTwoScrapes(t *testing.T) {
	var l Ledger
	a := page(0, 1, 0)
	a.GenerationTokens, a.TTFTSum, a.TTFTCount = 100, 10, 20
	b := page(2, 1, 0)
	b.GenerationTokens, b.TTFTSum, b.TTFTCount = 500, 10.48, 22
	l.observe(a)
	if l.TokensPerSecond() != 0 {
		t.Errorf("one scrape tells no speed, got %v", l.TokensPerSecond())
	}
	l.observe(b)
	if l.TokensPerSecond() != 200 {
		t.Errorf("tokens per second %v, want 200", l.TokensPerSecond())
	}
	if got := l.engineTTFT.Round(time.Millisecond); got != 240*time.Millisecond {
		t.Errorf("TTFT %v, want 240ms", got)
	}
}

func TestWorkersThatTakeTurnsAreNoRestart(t *testing.T) {
	// Two workers behind one port: every other page has the lower counter. The
	// first step back may be a restart; the next within a minute are not.
	var l Ledger
	restarts := 0
	for i := range 40 {
		s := page(float64(i), 1, 0)
		s.PromptTokens = 1000 - float64(i%2)*900
		if l.observe(s) {
			restarts++
		}
	}
	if restarts != 1 {
		t.Errorf("%d restarts in forty seconds, want one", restarts)
	}
	s := page(200, 1, 0)
	s.PromptTokens = 5
	if !l.observe(s) {
		t.Error("a restart minutes later was not seen")
	}
}

func TestOneHugePromptDoesNotSkewTheEstimate(t *testing.T) {
	var l Ledger
	l.reserve(Work{Uncached: 50_000_000, Output: 1})
	l.release(Prefill, Work{Uncached: 50_000_000, Output: 1}) // the engine refused it
	if got := l.promptMean(); got != priorPrompt {
		t.Errorf("mean prompt %v after a refused one, want %v", got, priorPrompt)
	}
	l.reserve(Work{Uncached: 50_000_000, Output: 1})
	l.firstToken(Work{Uncached: 50_000_000})
	if got := l.promptMean(); got > 8*priorPrompt {
		t.Errorf("mean prompt %v after one of fifty million", got)
	}
}
