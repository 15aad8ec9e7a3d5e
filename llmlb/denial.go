package llmlb

import "time"

// denial notices pages that deny the work we have given: a metrics endpoint that
// is frozen, cached by something in between, or another server's. What it does
// not count of ours it will not count of others' either. Pure; under the pool's
// lock.
type denial struct {
	least  int       // own calls that were open all through the current window
	pages  int       // in a row that denied them
	since  time.Time // when the first of those came
	latest time.Time // and the last
}

const (
	// denialLeast is how many own calls must have been open all the time. Some
	// may be on their way, or have their answer under way to a slow client.
	denialLeast = 8

	// denialShare is how many times as many they must be as the page counts in
	// all: some exporters tell of one rank of several.
	denialShare = 10

	// denialPages in a row must say so, over denialTime at least: engines renew
	// their numbers now and then only.
	denialPages = 3
	denialTime  = 5 * time.Second

	// denialKeep is how long the verdict stands without another such page. Pages
	// that come while we have little open there say nothing either way.
	denialKeep = 30 * time.Second
)

// page takes in a page that tells load.
func (d *denial) page(s *Signals) {
	if s.Running < 0 || d.least < denialLeast {
		return
	}
	if (s.Running+max(0, s.Waiting))*denialShare >= float64(d.least) {
		d.pages = 0
		return
	}
	if d.pages++; d.pages == 1 {
		d.since = s.At
	}
	d.latest = s.At
}

// proved reports whether the numbers, read once an interval, are not to be
// believed.
func (d *denial) proved(now time.Time, interval time.Duration) bool {
	return d.pages >= denialPages && d.latest.Sub(d.since) >= max(denialTime, 2*interval) &&
		now.Sub(d.latest) < max(denialKeep, 10*interval)
}
