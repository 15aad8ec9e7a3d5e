package llmlb

import "time"

const (
	// downAfter is how many failures to reach an endpoint in a row take it
	// out. One refused connection is a restart in progress as often as not.
	downAfter = 3

	// trialFirst and trialMax bound the pause before a down endpoint gets one
	// real call as a trial. It matters where nothing is scraped; otherwise the
	// next scrape that gets through brings the endpoint back sooner.
	trialFirst = time.Second
	trialMax   = 15 * time.Second
)

// reach is the small state machine of whether an endpoint can be connected to.
// Pure; the pool's lock guards it.
type reach struct {
	down     bool
	failures int
	reason   string
	since    time.Time
	trialAt  time.Time
	pause    time.Duration
}

// ok notes that the endpoint answered anything at all.
func (r *reach) ok(now time.Time) (changed bool) {
	changed = r.down
	if changed {
		r.since = now
	}
	r.down, r.failures, r.reason, r.pause = false, 0, "", 0
	return changed
}

// failed notes that the endpoint could not be reached.
func (r *reach) failed(now time.Time, reason string) (changed bool) {
	r.failures++
	if r.down {
		r.reason = reason
		return false
	}
	if r.failures < downAfter {
		return false
	}
	r.down, r.reason, r.since = true, reason, now
	r.pause = trialFirst
	r.trialAt = now.Add(r.pause)
	return true
}

// trial reports whether a down endpoint may get one call now.
func (r *reach) trial(now time.Time) bool { return r.down && !now.Before(r.trialAt) }

// knock reports whether a down endpoint may be asked now by a call that has nobody
// else to go to: more often than others give it a trial.
func (r *reach) knock(now time.Time) bool {
	return r.down && !now.Before(r.trialAt.Add(min(r.pause, trialFirst)-r.pause))
}

// tried books the trial, so that the next one comes later.
func (r *reach) tried(now time.Time) {
	if !r.down {
		return
	}
	r.pause = min(2*max(r.pause, trialFirst), trialMax)
	r.trialAt = now.Add(r.pause)
}
