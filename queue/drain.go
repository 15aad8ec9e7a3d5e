package queue

import (
	"math"
	"time"
)

// drain is how fast the queue empties, in tokens a second as they are priced. It
// is learned while somebody waits: what goes straight through says nothing of
// how much would. Pure.
type drain struct {
	tokens, seconds float64 // fading
	at              time.Time
	backlog         bool
}

// drainHalf is how long it takes for half of what was learned to be forgotten.
const drainHalf = 15 * time.Second

// waits notes that somebody does.
func (d *drain) waits(now time.Time) {
	if !d.backlog {
		d.backlog, d.at = true, now
	}
}

// empty notes that nobody does any more.
func (d *drain) empty() { d.backlog = false }

// granted notes a Call that got its place. Others wait behind it, or do not.
func (d *drain) granted(now time.Time, cost float64, backlog bool) {
	if !d.backlog {
		return
	}
	passed := max(0, now.Sub(d.at).Seconds())
	keep := math.Exp2(-passed / drainHalf.Seconds())
	d.tokens, d.seconds = d.tokens*keep+cost, d.seconds*keep+passed
	d.at, d.backlog = now, backlog
}

// wait is how long that many tokens take. Where it is not known, a queue that
// stands still is expected to do so for as long again; 0 otherwise.
func (d *drain) wait(tokens float64, now time.Time) time.Duration {
	const enough = 0.2 // seconds of backlog
	if d.seconds < enough || d.tokens <= 0 {
		const still = 3 * time.Second
		if since := now.Sub(d.at); d.backlog && since >= still {
			return since
		}
		return 0
	}
	return time.Duration(min(tokens*d.seconds/d.tokens, 3600) * float64(time.Second))
}
