package llmlb

import (
	"math"
	"time"
)

// budget bounds how many attempts of a pool may follow failed ones. When every
// server fails, retries would double and treble the load on what is left. When
// one of many dies, all that was open there may go elsewhere at once, and what
// fails after it still finds something to spend. Pure; under the pool's lock. The
// zero value is a pool that has done nothing yet.
type budget struct {
	calls, retries float64 // fading
	rescues        float64 // fading fast; see take
	at             time.Time

	// For metrics; they never go back.
	refused  uint64
	followed uint64 // attempts that were begun after one that failed
}

const (
	// budgetShare of the latest calls may be retried.
	budgetShare = 0.2
	// budgetLeast may always be, whatever there was of late.
	budgetLeast = 10
	// budgetHalf is how long it takes for half of what happened to be
	// forgotten.
	budgetHalf = 10 * time.Second
	// rescueHalf is the same for what was covered by open calls.
	rescueHalf = time.Second
)

func (b *budget) fade(now time.Time) {
	ago := float64(max(0, now.Sub(b.at))) // for ever, at first
	keep := math.Exp2(-ago / float64(budgetHalf))
	b.calls, b.retries, b.at = b.calls*keep, b.retries*keep, now
	b.rescues *= math.Exp2(-ago / float64(rescueHalf))
}

// began counts an attempt that begins: the first of a call, or one that follows.
func (b *budget) began(now time.Time, first bool) {
	if !first {
		b.followed++
		return
	}
	b.fade(now)
	b.calls++
}

// take reports whether one more retry may be made, and counts it. open is how
// many calls the pool has open: as many may be rescued in one blow, which leaves
// the rest of the budget as it was.
func (b *budget) take(now time.Time, open int) bool {
	b.fade(now)
	switch {
	case b.rescues+1 <= float64(open):
		b.rescues++
	case b.retries+1 <= budgetLeast+budgetShare*b.calls:
		b.retries++
	default:
		b.refused++
		return false
	}
	return true
}

// TakeRetry reports whether a failed attempt may be followed by another under
// the pool's retry budget, and counts that one: a fifth of the latest calls, ten
// more, and as many as are open.
func (p *Pool) TakeRetry(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget.take(now, p.leases)
}

// Retries returns how many attempts were begun after one that failed.
func (p *Pool) Retries() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget.followed
}

// RetriesRefused returns how many attempts the retry budget has refused.
func (p *Pool) RetriesRefused() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget.refused
}
