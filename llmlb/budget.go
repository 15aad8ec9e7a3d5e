package llmlb

import (
	"math"
	"time"
)

// budget bounds how many attempts of a pool may follow failed ones. When every
// server fails, retries would double and treble the load on what is left. When
// one of many dies, all that was open there may go elsewhere at once. Pure;
// under the pool's lock. The zero value is a pool that has done nothing yet.
type budget struct {
	calls, retries float64 // fading
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
)

func (b *budget) fade(now time.Time) {
	keep := math.Exp2(-float64(max(0, now.Sub(b.at))) / float64(budgetHalf)) // 0 at first
	b.calls, b.retries, b.at = b.calls*keep, b.retries*keep, now
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
// many calls the pool has open.
func (b *budget) take(now time.Time, open int) bool {
	b.fade(now)
	if b.retries+1 > budgetLeast+budgetShare*b.calls+float64(open) {
		b.refused++
		return false
	}
	b.retries++
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
