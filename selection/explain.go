package selection

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// record writes the choice down for GET /llmlb/explain: the seat picked and the
// next best, then those that could not be taken. Under the pool's lock.
func (ch *choice) record(picked *seat) {
	c := ch.call
	k := c.Pool.NextPick()
	k.At, k.Decision = ch.now, c.Decision
	k.Strategy, k.Delegated, k.Scorers = ch.settings.Strategy, ch.settings.Delegated, ch.settings.Weights()
	k.Model, k.InputTokens, k.ExpectedOutput = c.Model, c.InputTokens, c.ExpectedOutput()
	k.Attempt, k.Of = c.Attempts+1, len(ch.seats)
	ch.note(&k.Candidates[0], picked)

	others := ch.bestOthers(picked, len(k.Candidates)-1)
	for i, s := range others {
		ch.note(&k.Candidates[1+i], s)
	}
	k.Kept = 1 + len(others)
}

// bestOthers returns the seats that are shown beside the one picked, in their
// order: a few places are kept sorted while all seats pass by.
func (ch *choice) bestOthers(picked *seat, most int) []*seat {
	best := ch.aside[:0]
	for i := range ch.seats {
		s := &ch.seats[i]
		if s == picked {
			continue
		}
		if len(best) < most {
			best = append(best, s)
		} else if last := len(best) - 1; s.shownBefore(best[last]) {
			best[last] = s
		} else {
			continue
		}
		for at := len(best) - 1; at > 0 && s.shownBefore(best[at-1]); at-- {
			best[at-1], best[at] = best[at], best[at-1]
		}
	}
	ch.aside = best
	return best
}

// shownBefore orders seats for people: those that were compared by their cost,
// then the others.
func (s *seat) shownBefore(t *seat) bool {
	if s.compared() != t.compared() {
		return s.compared()
	}
	return s.cost < t.cost
}

// compared reports whether the seat was among those to pick from: it has a
// prediction.
func (s *seat) compared() bool { return s.ttft > 0 }

func (ch *choice) note(to *llmlb.Candidate, s *seat) {
	to.Name, to.Barred = s.endpoint.Name(), ch.why(s)
	to.Warm, to.Home = s.warm, s.home
	to.View = ch.view(s)
	to.Endpoint, to.Member = nil, nil // would keep them alive
	to.Context, to.Beginning = s.context, s.beginning
	to.Speed, to.Floor, to.Delay, to.Wait, to.Cost = s.rate.Speed, s.rate.Floor, s.delay, s.wait, s.cost
	if s.scored {
		to.Scores = copy(to.Parts[:], ch.said[s.parts:][:len(ch.settings.Scorers)])
	}
}
