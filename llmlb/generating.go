package llmlb

import (
	"fmt"
	"time"
)

const (
	// canaryPasses in a row bring an endpoint back that canaries have taken out.
	canaryPasses = 2

	// slowFactor and slowLeast are how much slower than its own idle baseline a
	// canary's first token must come to count as slow; slowAfter of them in a row
	// make the endpoint degraded, and as many that are not make it well again.
	slowFactor = 3
	slowLeast  = 200 * time.Millisecond
	slowAfter  = 3

	// baselineLeast is how many samples make a baseline. A new one weighs as much
	// as baselineWeight; while the endpoint is slow it weighs far less, so that a
	// fault does not become the rule within the hour, but a change that was meant
	// does in time.
	baselineLeast      = 5
	baselineWeight     = 0.1
	baselineSlowWeight = 0.01
)

// generating is the state machine of canaries: whether the endpoint generates, and
// whether its first token comes as it used to. Pure; under the pool's lock.
type generating struct {
	passed bool // ever
	failed bool
	streak int // passes in a row, or failures below zero
	reason string
	since  time.Time

	baseline   time.Duration // TTFT when idle
	samples    int
	slowStreak int // slow ones in a row, or others below zero
	isSlow     bool
	slowReason string
	slowSince  time.Time
}

// observe takes in a canary.
func (g *generating) observe(now time.Time, r *CheckResult, want *Canary) {
	switch r.Verdict {
	case CheckPassed:
		g.pass(now)
		if r.Idle && r.TTFT > 0 {
			g.compare(now, r.TTFT)
		}
	case CheckFailed, CheckNotReady:
		g.streak = min(g.streak, 0) - 1
		switch {
		case g.failed:
			g.reason = r.Reason
		case -g.streak >= max(1, want.Fails):
			g.failed, g.reason, g.since = true, r.Reason, now
		}
	case CheckUnsuitable:
		// It answers, and cannot be tried so: nothing speaks against it any more.
		if g.streak = 0; g.failed {
			g.failed, g.reason, g.since = false, "", now
		}
	default: // that it loads is told by readiness
	}
}

// pass notes that it has generated something: for a canary, or for a client.
func (g *generating) pass(now time.Time) {
	g.passed = true
	g.streak = max(g.streak, 0) + 1
	if g.failed && g.streak >= canaryPasses {
		g.failed, g.reason, g.since = false, "", now
	}
}

// compare holds the time to first token of an idle endpoint against what it used
// to be.
func (g *generating) compare(now time.Time, ttft time.Duration) {
	slow := g.samples >= baselineLeast && ttft > max(slowFactor*g.baseline, g.baseline+slowLeast)
	weight := baselineWeight
	if g.samples < baselineLeast {
		weight = 1 / float64(g.samples+1)
	}
	if slow {
		weight = baselineSlowWeight
		g.slowStreak = max(g.slowStreak, 0) + 1
	} else {
		g.slowStreak = min(g.slowStreak, 0) - 1
	}
	before := g.baseline
	g.baseline += time.Duration(weight * float64(ttft-g.baseline))
	g.samples++
	switch {
	case slow && (g.isSlow || g.slowStreak >= slowAfter):
		if !g.isSlow {
			g.isSlow, g.slowSince = true, now
		}
		g.slowReason = fmt.Sprintf("first token after %s when idle, usually %s", inShort(ttft), inShort(before))
	case g.isSlow && -g.slowStreak >= slowAfter:
		g.isSlow, g.slowReason, g.slowSince = false, "", now
	}
}

// inShort rounds to what a table has room for.
func inShort(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// forgive forgets what canaries have found that are no longer sent, or ask for
// something else.
func (g *generating) forgive(now time.Time) {
	if g.failed {
		g.failed, g.reason, g.since = false, "", now
	}
	g.streak = 0
}

// restart forgets what another process has shown.
func (g *generating) restart(now time.Time) { *g = generating{passed: g.passed, since: now} }

// out reports whether canaries have taken the endpoint out.
func (g *generating) out(s *Settings) bool { return g.failed && s != nil && s.Checks.Canary.On() }

// slow reports whether the endpoint is far slower than it used to be.
func (g *generating) slow(s *Settings) bool { return g.isSlow && s != nil && s.Checks.Canary.On() }
