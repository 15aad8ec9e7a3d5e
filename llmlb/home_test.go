package llmlb

import "testing"

// Homes are believed in until they disappoint: were they left before anybody tries
// them, nobody would find anything there. Then it counts what engines say they found
// that we did not know of, and where they do not say it, that is known too.
func TestWhatHomesHaveBeenWorth(t *testing.T) {
	p := NewPool("homes")
	s := bound(t, p, Member{Address: "a:1"})
	served := func(matched, cached int) {
		c := NewCall(p, s, t0)
		c.SentHome = true
		c.Decision.Matched, c.PromptTokens, c.CachedTokens = matched, 1000, cached
		p.learnHome(c)
	}
	share := func() (float64, bool) {
		p.Lock()
		defer p.Unlock()
		return p.HomeShare()
	}
	if got, known := share(); got != 1 || !known {
		t.Errorf("a new pool's homes are worth %v (%v), want all", got, known)
	}
	for range 1000 {
		served(0, 600)
	}
	if got, known := share(); got < 0.59 || got > 0.61 || !known {
		t.Errorf("homes are worth %.2f, want the 0.6 that was found", got)
	}
	for range 1000 {
		served(500, 600)
	}
	if got, _ := share(); got < 0.09 || got > 0.11 {
		t.Errorf("homes are worth %.2f, want the 0.1 that we had not known", got)
	}
	for range homeUntold {
		served(0, Unknown)
	}
	if _, known := share(); known {
		t.Error("engines that say nothing are still taken at their word")
	}
	if p.HomesTried() != 2000 {
		t.Errorf("%d homes were tried, want 2000", p.HomesTried())
	}
	served(0, 0)
	if _, known := share(); !known {
		t.Error("one that says it again is not heard")
	}
}
