package llmlb

import "time"

// Generates reports whether the Call makes an engine generate. What does not, a
// list of models or a health check, is placed like any Call but counts for
// nothing in metrics.
func (c *Call) Generates() bool { return c.InputTokens > 0 }

// Finish is EndAttempt for any Call: it counts the outcome of those only that
// generate.
func (c *Call) Finish(now time.Time, o Outcome) {
	if c.Lease == nil || c.Generates() {
		c.EndAttempt(now, o)
		return
	}
	c.Lease.End(now)
	c.Lease, c.Outcome = nil, o
}
