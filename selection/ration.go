package selection

import (
	"math"
	"slices"
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
// The bound takes somebody who can do the work instead. It holds beside an endpoint
// that gets its whole share and may take the Call, if not before it has computed some
// of what it has. Where all such are at their limit, pause or have failed the Call,
// which may last, the bound is on what has no first token yet: an endpoint that is
// slow at first gets no more before it has shown that it works. Where every endpoint
// is new, or there is one alone, there is none.
//
// Nor is it a reason to refuse anybody. Calls that can wait do, until their time is
// over or the queue is full (llmlb.Call.Last); for those that cannot it goes by the
// board when nobody else is left, and so it does at one that is degraded when nobody
// else has room.

// peers are those that an endpoint's share is measured by: endpoints that are well
// and get their whole share, be some of them at their limit at the moment.
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

// whole reports whether the seat's endpoint is well and gets its whole share.
func (s *seat) whole() bool {
	return s.share >= 1 && !s.onTrial && s.barred&^(barNow|barFailed) == 0
}

// ration marks the seats that have as much as their share allows.
func (ch *choice) ration() {
	if !ch.rationed || ch.call.Last || !ch.call.Generates() {
		return
	}
	var others peers
	for i := range ch.seats {
		if s := &ch.seats[i]; s.whole() {
			others.add(s.own, s.member)
		}
	}
	beside := slices.ContainsFunc(ch.left, (*seat).whole)
	for _, s := range ch.left {
		switch {
		case beside:
			s.over = s.own >= others.most(s.share, s.member)
		case others.weights > 0:
			s.over = s.share < 1 && swamped(s.endpoint)
		}
	}
}

// swamped reports whether the endpoint has as much without a first token as one of
// unknown speed may have, counting also what will show none: of that room knows no
// end. Under the pool's lock.
func swamped(e *llmlb.Endpoint) bool {
	calls, _ := e.Ledger().OwnCalls()
	tokens, _ := e.Ledger().TokensInFlight()
	return calls >= mostBlind || calls > 0 && tokens >= mostUntried
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
		if ch.isOpen(s) {
			slow = append(slow, s)
		}
	}
	ch.aside = slow
	ch.left, ch.atHome = append(ch.left[:0], slow...), nil
	return len(slow) > 0
}

// isOpen reports whether the seat has room that the Call may have without haste, and
// notes it if it would be another matter for one that is in haste.
func (ch *choice) isOpen(s *seat) bool {
	switch {
	case !ch.hasRoom(s):
		return false
	case !s.over || isSlow(s.endpoint, ch.now):
		return true
	}
	ch.call.Held = true
	return false
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
