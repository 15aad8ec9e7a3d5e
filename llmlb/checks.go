package llmlb

import (
	"cmp"
	"sync/atomic"
	"time"
)

// Defaults of the checks, as documented in docs/health.md.
const (
	DefaultReadinessInterval = 5 * time.Second
	DefaultReadinessTimeout  = 5 * time.Second
	DefaultReadinessFails    = 3
	DefaultReadinessPasses   = 2
	DefaultCanaryTimeout     = 10 * time.Second
	DefaultCanaryFails       = 3
	DefaultCanaryMaxTokens   = 1
	MaxCanaryTokens          = 16
	DefaultWarmUp            = 30 * time.Second
)

// Checks is what is asked of an endpoint besides its load.
type Checks struct {
	Readiness Readiness
	Canary    Canary

	// WarmUp is over how long the share of an endpoint that has come, or has come
	// back, rises to the whole. 0 is at once.
	WarmUp time.Duration

	// MustPass gives an endpoint nothing until its first check has passed.
	MustPass bool

	// Refuse gives nothing to endpoints that checks have taken out, also when they
	// have taken out all of them.
	Refuse bool
}

// question is what a check asks of an endpoint. The zero value is nothing.
type question struct {
	asked                bool
	what, model, expects string
}

// asks returns the questions of the two checks.
func (c *Checks) asks() (readiness, canary question) {
	if !c.Readiness.Off {
		readiness = question{asked: true, what: c.Readiness.Path}
	}
	if c.Canary.On() {
		canary = question{asked: true, what: c.Canary.Prompt, model: c.Canary.Model, expects: c.Canary.Expect}
	}
	return readiness, canary
}

// Readiness is how an endpoint is asked whether it is ready.
type Readiness struct {
	Off bool

	// Path is asked with GET on the upstream's own address. Empty means the
	// dialect's own, and an engine that has no such path is not asked.
	Path string

	Interval time.Duration
	Timeout  time.Duration // of the whole exchange

	// Fails in a row take the endpoint out; Passes in a row bring it back.
	Fails, Passes int
}

// Canary is a short completion that shows whether an endpoint generates.
type Canary struct {
	// Interval is how long after the last success of any traffic the endpoint is
	// tried. 0 is off.
	Interval time.Duration

	Prompt    string // "" means the module's own
	Expect    string // what the answer must contain; "" means nothing
	Model     string // "" means the first that the endpoint lists
	MaxTokens int
	Timeout   time.Duration // from dial to last byte

	// Fails in a row take the endpoint out.
	Fails int
}

// Settled returns the settings with their defaults where nothing is set.
func (r Readiness) Settled() Readiness {
	r.Interval = cmp.Or(r.Interval, DefaultReadinessInterval)
	r.Timeout = cmp.Or(r.Timeout, DefaultReadinessTimeout)
	r.Fails = cmp.Or(r.Fails, DefaultReadinessFails)
	r.Passes = cmp.Or(r.Passes, DefaultReadinessPasses)
	return r
}

// Settled returns the settings with their defaults where nothing is set, but for the
// interval, which is whether canaries are sent, and the prompt.
func (c Canary) Settled() Canary {
	c.MaxTokens = cmp.Or(c.MaxTokens, DefaultCanaryMaxTokens)
	c.Timeout = cmp.Or(c.Timeout, DefaultCanaryTimeout)
	c.Fails = cmp.Or(c.Fails, DefaultCanaryFails)
	return c
}

// On reports whether canaries are sent.
func (c *Canary) On() bool { return c.Interval > 0 }

// CheckKind is which check.
type CheckKind uint8

// The checks.
const (
	ReadinessCheck CheckKind = iota
	CanaryCheck
	checkKinds
)

var checkKindNames = [checkKinds]string{"readiness", "canary"}

// String returns the name used in metrics.
func (k CheckKind) String() string {
	if k >= checkKinds {
		return "unknown"
	}
	return checkKindNames[k]
}

// CheckKinds lists every kind, in order.
func CheckKinds() []CheckKind { return []CheckKind{ReadinessCheck, CanaryCheck} }

// CheckVerdict is what a check has shown.
type CheckVerdict uint8

// The verdicts. A check that was cancelled has none.
const (
	CheckPassed     CheckVerdict = iota
	CheckFailed                  // no answer in time, or one that is wrong
	CheckNotReady                // the engine answers 503: it starts, or is broken
	CheckLoading                 // the engine says that it loads its model
	CheckUnsuitable              // the engine cannot be asked so: nothing is told
	checkVerdicts
)

var checkVerdictNames = [checkVerdicts]string{"passed", "failed", "not_ready", "loading", "unsuitable"}

// String returns the name used in metrics.
func (v CheckVerdict) String() string {
	if v >= checkVerdicts {
		return "unknown"
	}
	return checkVerdictNames[v]
}

// CheckVerdicts lists every verdict, in order.
func CheckVerdicts() []CheckVerdict {
	list := make([]CheckVerdict, checkVerdicts)
	for v := range checkVerdicts {
		list[v] = v
	}
	return list
}

// CheckResult is what one check has brought.
type CheckResult struct {
	Began   time.Time
	Verdict CheckVerdict

	// Slow says that a failure is that no answer came in time. It does not count
	// where the endpoint has generated something meanwhile: it was busy.
	Slow bool

	// Reason says in short words, fit for a table, why it did not pass.
	Reason string

	// TTFT is the canary's time to first token, 0 where there was none. Idle says
	// that nothing else ran there, as far as is known, when it was sent.
	TTFT time.Duration
	Idle bool

	// Own says that the check had the endpoint generate something itself, so that
	// its counters are no sign of others' work.
	Own bool
}

// checkCounts counts the checks of an endpoint.
type checkCounts [checkKinds][checkVerdicts]atomic.Uint64

// Checks returns how many checks of the kind had the verdict.
func (e *Endpoint) Checks(k CheckKind, v CheckVerdict) uint64 { return e.checks[k][v].Load() }

// ObserveReadiness takes in what a readiness check has brought.
func (e *Endpoint) ObserveReadiness(now time.Time, r CheckResult, want Readiness) {
	e.checks[ReadinessCheck][r.Verdict].Add(1)
	e.change(now, func() {
		switch {
		case e.busySince(&r, now):
			if e.alive.returning { // it generates: what more could it pass
				e.alive.observe(now, &CheckResult{Verdict: CheckPassed}, &want)
			}
		case !e.unreachable(&r):
			e.alive.observe(now, &r, &want)
		}
		e.loseSilent(&r, now)
	})
}

// ObserveCanary takes in what a canary has brought. Tell nothing of one that the
// endpoint was too busy for.
func (e *Endpoint) ObserveCanary(now time.Time, r CheckResult, want Canary) {
	e.checks[CanaryCheck][r.Verdict].Add(1)
	e.change(now, func() {
		if !e.busySince(&r, now) {
			e.generating.observe(now, &r, &want)
		}
		e.loseSilent(&r, now)
	})
}

// loseSilent tells those who wait for an answer that they wait in vain, when a
// check that got none has taken the endpoint out. A check that got a wrong answer
// says nothing of theirs; neither does one that nobody passes. Under the pool's
// lock.
func (e *Endpoint) loseSilent(r *CheckResult, now time.Time) {
	if r.Slow && e.CheckedOut(e.pool.current()) && !e.pool.allDown(now) {
		e.lose(now)
	}
}

// busySince reports whether a check got no answer in time from an endpoint that
// generates something. Progress is life. Under the pool's lock.
func (e *Endpoint) busySince(r *CheckResult, now time.Time) bool {
	if r.Verdict != CheckFailed || !r.Slow {
		return false
	}
	if r.Own {
		return e.progressAt.Load() > r.Began.UnixNano()
	}
	return e.progressed(r.Began, now, lifeKeep)
}

// unreachable reports whether a check failed at an endpoint that is down because
// nobody can reach it. That is told already, and would otherwise have to be made
// good by several checks when it is there again. Under the pool's lock.
func (e *Endpoint) unreachable(r *CheckResult) bool { return r.Verdict == CheckFailed && e.reach.down }

// Generated returns when the endpoint was last known to have generated something
// for anybody, zero for never. Under the pool's lock.
func (e *Endpoint) Generated() (at time.Time) {
	if n := e.progressAt.Load(); n != 0 {
		at = time.Unix(0, n)
	}
	if t := e.ledger.progressAt; t.After(at) {
		at = t
	}
	return at
}

// CheckedOut reports whether checks have found the endpoint unfit, under the
// settings given. Under the pool's lock.
func (e *Endpoint) CheckedOut(s *Settings) bool { return e.alive.out(s) || e.generating.out(s) }

// trafficKeep is how long a failed attempt says something about now.
const trafficKeep = time.Minute

// TrafficFails reports whether real traffic has shown the same as the checks: the
// latest attempt there has failed, and not long ago. Under the pool's lock.
func (e *Endpoint) TrafficFails(now time.Time) bool {
	return e.failedAt.After(e.servedAt) && now.Sub(e.failedAt) < trafficKeep
}

// ServesAnyway reports whether an endpoint that checks have taken out may get work
// when they have taken out all of them: its real traffic does not fail, and the
// operator has not said otherwise. Under the pool's lock.
func (e *Endpoint) ServesAnyway(now time.Time, s *Settings) bool {
	return !s.Checks.Refuse && !e.TrafficFails(now)
}
