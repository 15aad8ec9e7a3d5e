package llmlb

import (
	"slices"
	"strings"
	"time"
)

// exclusion is an endpoint that failed the Call, and how.
type exclusion struct {
	endpoint *Endpoint
	why      failing
}

type failing uint8

const (
	failed failing = iota
	busy           // it only had too much to do
	unsent         // it could not be reached, so nothing was sent
)

// Exclude keeps the endpoint from being chosen again for this Call.
func (c *Call) Exclude(e *Endpoint) { c.exclude(e, failed) }

// ExcludeBusy does so because the endpoint had too much to do, until Readmit.
func (c *Call) ExcludeBusy(e *Endpoint) { c.exclude(e, busy) }

// ExcludeUnsent does so because nothing could be sent to it, until Readmit.
func (c *Call) ExcludeUnsent(e *Endpoint) { c.exclude(e, unsent) }

func (c *Call) exclude(e *Endpoint, why failing) {
	if !c.Excluded(e) {
		c.excluded = append(c.excluded, exclusion{e, why})
	}
}

// Excluded reports whether the endpoint failed this Call before.
func (c *Call) Excluded(e *Endpoint) bool {
	return slices.ContainsFunc(c.excluded, func(x exclusion) bool { return x.endpoint == e })
}

// Excludes reports whether any endpoint is kept from the Call.
func (c *Call) Excludes() bool { return len(c.excluded) > 0 }

// Spent reports whether the endpoint had too much to do for this Call, which has
// not been readmitted since.
func (c *Call) Spent(e *Endpoint) bool {
	return slices.ContainsFunc(c.excluded, func(x exclusion) bool { return x.endpoint == e && x.why == busy })
}

// FailedAt lists the addresses of the endpoints that are kept from the Call, ""
// for none.
func (c *Call) FailedAt() string {
	if len(c.excluded) == 0 {
		return ""
	}
	list := make([]string, 0, len(c.excluded))
	for _, x := range c.excluded {
		list = append(list, x.endpoint.address)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// Unsent reports whether nothing of the Call has been sent to anybody since it
// was admitted last, though it was tried.
func (c *Call) Unsent() bool {
	tried := false
	for _, x := range c.excluded {
		if x.why != unsent {
			return false
		}
		tried = true
	}
	return tried
}

// Worked reports whether an engine may have done something for the Call: an
// attempt of it has ended in another way than that the endpoint could not be
// reached, or had too much to do.
func (c *Call) Worked() bool { return c.worked }

// Readmit lets the Call, which has waited, be tried again where there was too
// much to do before, or where nobody could be reached. Attempts that reached
// nobody no longer count.
func (c *Call) Readmit() {
	c.excluded = slices.DeleteFunc(c.excluded, func(x exclusion) bool {
		if x.why == unsent {
			c.forgiven++
		}
		return x.why != failed
	})
	c.Exhausted, c.Crowded, c.RetryAt = false, false, time.Time{}
}

// Spending returns how many attempts count towards the Settings' retries.
func (c *Call) Spending() int { return c.Attempts - c.forgiven }

// AttemptsLeft reports whether the Settings allow the Call another attempt.
func (c *Call) AttemptsLeft() bool {
	return c.Settings == nil || c.Spending() <= c.Settings.Retries
}
