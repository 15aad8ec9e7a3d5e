package llmlb

import (
	"slices"
	"time"
)

// prefills is our own Calls at an endpoint that have no first token yet, in the
// order in which they were sent, which is the order in which engines compute
// prompts. Pure; under the pool's lock.
type prefills struct {
	leases []*Lease
	since  time.Time // since when the first of them has been the first
}

// progressMost is how much of a prompt may count as computed before its first
// token proves it. Speeds are estimates.
const progressMost = 0.9

func (p *prefills) add(l *Lease, now time.Time) {
	if len(p.leases) == 0 {
		p.since = now
	}
	p.leases = append(p.leases, l)
}

func (p *prefills) remove(l *Lease, now time.Time) {
	i := slices.Index(p.leases, l)
	if i < 0 {
		return
	}
	p.leases = slices.Delete(p.leases, i, i+1)
	if i == 0 {
		p.since = now
	}
}

// fallsTo is when that much work will have become as little as the horizon by
// nothing but computing, at that many tokens a second. Zero for not before a first
// token comes.
func (p *prefills) fallsTo(horizon, work, speed float64) time.Time {
	over := work - horizon
	if len(p.leases) == 0 || over <= 0 || over >= progressMost*float64(p.leases[0].effort) {
		return time.Time{}
	}
	return p.since.Add(time.Duration(over/speed*float64(time.Second)) + time.Microsecond)
}

// begun is how far the first one is at a moment. The zero value is that there is
// none.
type begun struct {
	most float64       // of its work, in tokens, that may count as computed
	age  time.Duration // how long it has been the first
}

func (p *prefills) first(now time.Time) begun {
	if len(p.leases) == 0 {
		return begun{}
	}
	return begun{progressMost * float64(p.leases[0].effort), now.Sub(p.since)}
}

// done is how much of its work must have been computed so much later, at that many
// tokens a second: without it an endpoint that has nearly finished a prompt of ten
// seconds looks like one that has just begun.
func (b begun) done(later time.Duration, speed float64) float64 {
	return min(b.most, max(0, (b.age+later).Seconds())*speed)
}
