package selection

import (
	"math"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// An endpoint that has just come, or come back, looks like the best there is: it is
// empty, and stays so until its first answers are on their way. Everybody would go
// there, and find a server with cold caches that still compiles its kernels. So it
// gets a share of the work that grows (llmlb.Endpoint.Share), in two ways. It counts
// as so much slower than it is, wherever endpoints are compared: by cost, as homes,
// and by how many calls they have. And it has a bound on our own calls, which holds
// for every strategy: its share of what the others have on average, one in any case.
// An endpoint that is degraded is treated alike.
//
// The bound is no reason to refuse anybody. Calls that can wait do, while a server
// warms up; for those that cannot it goes by the board when nobody else is left, and
// so it does at one that is degraded when nobody else has room. And it takes others
// to measure by: where every endpoint is new, or there is one alone, there is none.

// peers are those that an endpoint's share is measured by: endpoints that are well
// and get their whole share, be they at their limit at the moment.
type peers struct{ calls, weights float64 }

func (p *peers) add(own int, m *llmlb.Member) {
	p.calls += float64(own)
	p.weights += m.Share()
}

// most is how many of our own calls an endpoint may have.
func (p *peers) most(share float64, m *llmlb.Member) int {
	if p.weights == 0 || share >= 1 {
		return math.MaxInt
	}
	return max(1, int(math.Ceil(share*(m.Share()*p.calls/p.weights+1))))
}

// ration marks the seats that have as much as their share allows.
func (ch *choice) ration() {
	if !ch.rationed || !ch.call.Generates() {
		return
	}
	var others peers
	for i := range ch.seats {
		if s := &ch.seats[i]; s.share >= 1 && !s.onTrial && s.barred&^(barNow|barFailed) == 0 {
			others.add(s.own, s.member)
		}
	}
	for _, s := range ch.left {
		s.over = s.own >= others.most(s.share, s.member)
	}
}

// withinShare leaves the seats that may have more by their share, unless none may,
// and reports whether any may.
func (ch *choice) withinShare() bool {
	if !ch.rationed {
		return true
	}
	kept := ch.aside[:0]
	for _, s := range ch.left {
		if s.over {
			ch.over = append(ch.over, s)
		} else {
			kept = append(kept, s)
		}
	}
	ch.aside = kept
	if len(kept) == 0 {
		return false
	}
	ch.left = append(ch.left[:0], kept...)
	return true
}

// onlySlow leaves the degraded seats with room that have more than their share, and
// reports whether there are any. They may stay degraded for days: nobody is to wait
// beside a server that works.
func (ch *choice) onlySlow() bool {
	slow := ch.aside[:0]
	for _, s := range ch.over {
		if s.room && isSlow(s.endpoint, ch.now) {
			slow = append(slow, s)
		}
	}
	ch.aside = slow
	ch.left = append(ch.left[:0], slow...)
	return len(slow) > 0
}

// isSlow reports whether the endpoint is degraded.
func isSlow(e *llmlb.Endpoint, now time.Time) bool {
	state, _, _ := e.State(now)
	return state == llmlb.Degraded
}

// shortened says in words that the seat has as much as its share allows.
func (ch *choice) shortened(s *seat) string {
	switch {
	case !s.over:
		return ""
	case isSlow(s.endpoint, ch.now):
		return "degraded, and has its share"
	}
	return "warming up, and has its share"
}
