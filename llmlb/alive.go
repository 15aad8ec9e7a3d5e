package llmlb

import "time"

// alive is the state machine of the readiness check. An endpoint that has never
// been asked is taken to be ready; so is one that cannot be asked. Pure; under the
// pool's lock.
type alive struct {
	passed    bool // since it was last gone
	failing   bool
	loading   bool // has said so
	returning bool // was gone, and has passed before: it has to pass again
	streak    int  // passes in a row, or failures below zero
	reason    string
	since     time.Time
}

// observe takes in a check. A server that loads, or is new, is ready with the first
// check that passes; one that has failed with as many as are wanted.
func (a *alive) observe(now time.Time, r *CheckResult, want *Readiness) {
	switch r.Verdict {
	case CheckPassed:
		if a.returning && !r.Began.IsZero() && r.Began.Before(a.since) {
			return // the answer of what was there before
		}
		a.streak = max(a.streak, 0) + 1
		if a.failing && a.streak < max(1, want.Passes) {
			return
		}
		if a.failing || a.loading || a.returning {
			a.since = now
		}
		*a = alive{passed: true, streak: a.streak, since: a.since}
	case CheckLoading:
		a.load(now, r.Reason)
	case CheckNotReady:
		if !a.passed && !a.failing {
			a.load(now, r.Reason)
			return
		}
		a.fail(now, r.Reason, want)
	case CheckFailed:
		a.fail(now, r.Reason, want)
	default:
		// One answer of that kind may be a proxy's, and takes nothing away from one
		// that has passed.
		if a.failing || a.loading || a.returning {
			a.since = now
		}
		*a = alive{passed: a.passed, since: a.since, reason: r.Reason}
	}
}

// load notes that it is not ready yet, which is no failure.
func (a *alive) load(now time.Time, reason string) {
	if !a.loading {
		a.since = now
	}
	a.loading, a.failing, a.streak, a.reason = true, false, 0, reason
}

func (a *alive) fail(now time.Time, reason string, want *Readiness) {
	a.streak = min(a.streak, 0) - 1
	switch {
	case a.failing:
		a.reason = reason
	case -a.streak >= max(1, want.Fails):
		a.failing, a.loading, a.reason, a.since = true, false, reason, now
	}
}

// forgive forgets what checks have found that are no longer made, or made of
// something else.
func (a *alive) forgive(now time.Time) {
	if a.failing || a.loading {
		a.since = now
	}
	*a = alive{passed: a.passed, returning: a.returning, since: a.since}
}

// gone notes that nobody can reach it any more. What comes back may not be ready
// yet, although its port is open.
func (a *alive) gone(now time.Time) {
	*a = alive{returning: a.passed || a.returning, since: now}
}

// out reports whether the check has taken the endpoint out.
func (a *alive) out(s *Settings) bool { return a.failing && s.readiness() }

// readiness reports whether endpoints are asked whether they are ready. Without an
// engine there is no path of its own.
func (s *Settings) readiness() bool {
	return s != nil && !s.Checks.Readiness.Off && (s.Scrape.Engine != "none" || s.Checks.Readiness.Path != "")
}

// Starting reports whether the endpoint is not ready yet under the settings given,
// why, and since when: nothing is to be sent there. One that sleeps is none of
// these; some engines wake with a request. Under the pool's lock.
func (e *Endpoint) Starting(s *Settings) (reason string, since time.Time, _ bool) {
	if s == nil {
		return "", time.Time{}, false
	}
	a := &e.alive
	switch {
	case s.readiness() && a.loading:
		return a.reason, a.since, true
	case s.readiness() && a.returning:
		return "has come back; not checked yet", a.since, true
	case s.Checks.MustPass && !a.passed && !e.generating.passed:
		if since = a.since; since.Before(e.joined) {
			since = e.joined
		}
		if a.reason != "" && !a.failing {
			return "has not passed a check yet; readiness cannot be asked: " + a.reason, since, true
		}
		return "has not passed a check yet", since, true
	}
	return "", time.Time{}, false
}
