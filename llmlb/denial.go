package llmlb

// denial notices pages that deny the work we have given: a metrics endpoint that
// is frozen, cached by something in between, or another server's. What it does
// not count of ours it will not count of others' either. Pure; under the pool's
// lock.
type denial struct {
	least int // own calls that were open all through the current window
	pages int // in a row that denied them
}

const (
	// denialLeast is how many own calls must have been open all the time. A few
	// may be on their way, or have their answer under way to a slow client.
	denialLeast = 4

	// denialShare is how many times as many they must be as the page counts in
	// all: some exporters tell of one rank of several.
	denialShare = 10

	// denialPages is how many pages in a row must say so.
	denialPages = 3
)

// page takes in a page that tells load.
func (d *denial) page(s *Signals) {
	switch told := max(0, s.Running) + max(0, s.Waiting); {
	case !s.HasLoad(), d.least < denialLeast:
		// says nothing either way
	case told*denialShare < float64(d.least):
		d.pages++
	default:
		d.pages = 0
	}
}

// proved reports whether the numbers are not to be believed.
func (d *denial) proved() bool { return d.pages >= denialPages }
