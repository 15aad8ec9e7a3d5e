package selection

import (
	"cmp"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// prefixSpill uses the warm seat (with several: least waiting, then lowest time
// to first token) until a threshold is reached. Then it leaves it, but only for
// one that is predicted to answer sooner; among those least waiting decides,
// and the lowest time to first token on ties. When none is, the warm one keeps
// the Call: moving would cost a cache and win nothing.
func (ch *choice) prefixSpill() (*seat, llmlb.Reason) {
	var home *seat
	for _, s := range ch.left {
		if s.warm && (home == nil || ch.shorter(s, home)) {
			home = s
		}
	}
	reason := ch.past(home)
	if reason == llmlb.ReasonNone {
		return home, llmlb.ReasonWarm
	}
	var away *seat
	for _, s := range ch.left {
		if s != home && s.ttft < home.ttft && (away == nil || ch.shorter(s, away)) {
			away = s
		}
	}
	if away == nil {
		return home, llmlb.ReasonWarm
	}
	ch.behind = home
	return away, reason
}

// shorter orders seats by requests waiting, then by time to first token. Where
// one has not been seen lately the prediction stands for it.
func (ch *choice) shorter(s, t *seat) bool {
	return cmp.Or(
		cmp.Compare(s.waiting, t.waiting),
		cmp.Compare(s.seen(), t.seen()),
		cmp.Compare(s.ttft, t.ttft),
		cmp.Compare(ch.lot(t), ch.lot(s)),
	) < 0
}

func (s *seat) seen() float64 {
	if recent := s.brief().Recent; recent >= 0 {
		return recent
	}
	return s.ttft
}
