package llmlb

import "testing"

// told is what an engine's page says at a second.
func told(sec, running, waiting, generated float64) Signals {
	s := page(sec, running, waiting)
	s.GenerationTokens = generated
	return s
}

// Another gateway has an engine compute a long prompt. Nothing says so but that the
// eight sequences which run there get no tokens: the server is not to look as idle as
// one whose eight get sixty a second each. The longer it lasts, the more is likely
// left, and when tokens flow again it is over.
func TestAnothersLongPromptIsSeen(t *testing.T) {
	var free, held Ledger
	free.observe(told(0, 8, 0, 0))
	held.observe(told(0, 8, 0, 0))
	look := func(l *Ledger, sec float64) float64 {
		return l.Load(at(sec), testInterval, testStale, 10_000).PrefillTokens
	}
	var before float64
	for sec := 1.0; sec <= 3; sec++ {
		free.observe(told(sec, 8, 0, 480*sec))
		held.observe(told(sec, 8, 0, 2*sec))
		if got := look(&free, sec); got != 0 {
			t.Errorf("after %v s %.0f tokens are thought to stand before a request at the free server", sec, got)
		}
		got := look(&held, sec)
		if got <= before {
			t.Errorf("after %v s %.0f tokens are left at the other, want more than %.0f", sec, got, before)
		}
		before = got
	}
	held.observe(told(4, 8, 0, 500))
	if got := look(&held, 4); got != 0 {
		t.Errorf("%.0f tokens are left when answers are written again", got)
	}
}

// Our own work does not look like others'.
func TestOwnPromptsAreNotTakenForOthers(t *testing.T) {
	var l Ledger
	l.observe(told(0, 0, 0, 0))
	l.reserve(Work{Uncached: 1000, Output: 10})
	l.observe(told(1, 1, 0, 0))
	l.observe(told(2, 1, 0, 0))
	if got, want := l.Load(at(2), testInterval, testStale, 10_000).PrefillTokens, float64(Work{Uncached: 1000}.Effort()); got != want {
		t.Errorf("%.0f tokens, want our own %.0f", got, want)
	}
	if foreign, _ := l.OthersShare(); foreign != 0 {
		t.Errorf("%v requests are taken for others'", foreign)
	}
}

// Whose requests those are that scrapes count is remembered when there are none for
// a while, and forgotten in the end.
func TestOthersShareFades(t *testing.T) {
	var l Ledger
	sec := 0.0
	for range 50 {
		l.observe(page(sec, 4, 0))
		sec++
	}
	foreign, all := l.OthersShare()
	if foreign != all || all < 100 {
		t.Errorf("%.0f of %.0f are others', want all", foreign, all)
	}
	for range 600 {
		l.observe(page(sec, 0, 0))
		sec++
	}
	if _, left := l.OthersShare(); left > 1 {
		t.Errorf("%.1f requests are remembered after ten minutes without any", left)
	}
}
