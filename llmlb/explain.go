package llmlb

import "time"

const (
	// MaxPicks is how many choices a pool remembers.
	MaxPicks = 64

	// maxCandidates is how many endpoints of each are kept: the one chosen and
	// the next best.
	maxCandidates = 8
)

// Candidate is one endpoint as a choice saw it.
type Candidate struct {
	Name   string // of the endpoint
	Barred string // why it could not be taken; empty when it could
	Warm   bool
	Home   bool // where the conversation's key falls

	View // Endpoint and Member are not kept

	Context   float64 // prompt tokens of our own open calls
	Beginning float64 // requests whose own prompt stood before this one's

	Speed  float64 // prompt tokens a second
	Floor  float64 // seconds
	Delay  float64 // seconds to load the adapter or model
	Wait   float64 // what of the cost is others' doing, in seconds
	Cost   float64 // what was minimised, or for "weighted" 1 − Score
	Parts  [MaxScorers]float64
	Scores int // how many of Parts are set, in the order of the scorers
}

// Pick is one choice and what it was made of.
type Pick struct {
	At             time.Time
	Model          string
	InputTokens    int
	ExpectedOutput int
	Decision       Decision
	Attempt        int

	// How it was made. Not the Settings themselves: a record must not keep a
	// configuration alive that is long gone.
	Strategy  string
	Delegated bool
	Scorers   []WeightedScorer

	Candidates [maxCandidates]Candidate
	Kept       int // how many of Candidates are set; the first is the one chosen
	Of         int // how many endpoints there were
}

// picks is a ring of the last choices, under the pool's lock.
type picks struct {
	ring []Pick
	next int
	full bool
}

// NextPick returns the record that the choice being made now is to be written
// into: the oldest there is. Under the pool's lock, in the same critical section
// as the choice.
func (p *Pool) NextPick() *Pick {
	if p.picks.ring == nil {
		p.picks.ring = make([]Pick, MaxPicks)
	}
	k := &p.picks.ring[p.picks.next]
	if p.picks.next++; p.picks.next == MaxPicks {
		p.picks.next, p.picks.full = 0, true
	}
	*k = Pick{}
	return k
}
