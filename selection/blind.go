package selection

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// foreign splits what others do at the endpoint from what we do. The ledger
// tells the sum.
func (s *seat) foreign(load *llmlb.Load) (waiting, running, prefill float64) {
	waiting = s.brief().ForeignWaiting
	running = load.Foreign - waiting
	prefill = max(0, load.PrefillTokens-load.Phantom-float64(s.brief().PrefillTokens))
	return waiting, running, prefill
}

// impute gives blind endpoints the load of others that the sighted ones have on
// average. Without numbers an endpoint shows our own work only, and would look
// better than its neighbours for no other reason than our not knowing.
func (ch *choice) impute() {
	if !ch.blinds {
		return
	}
	var n, waiting, running, prefill float64
	for _, s := range ch.left {
		if !s.blind {
			load := s.brief().Load(&ch.asking)
			w, r, p := s.foreign(&load)
			n++
			waiting += w
			running += r
			prefill += p
		}
	}
	if n == 0 {
		return
	}
	for _, s := range ch.left {
		if s.blind {
			s.waiting += waiting / n
			s.beginning += waiting / n
			s.running += running / n
			s.prefill += prefill / n
		}
	}
}

// capBlind takes blind endpoints out that hold their fair share of our own
// calls already, this one counted in. Where all are blind nothing is taken out:
// our own counts are then the best there is, and no numbers at all is not a
// full pool. Sighted endpoints that are failing do not count either: what the
// blind ones must not have would all go to them, and fail.
func (ch *choice) capBlind() {
	if !ch.blinds {
		return
	}
	sighted, total, n := 0, 0, 0
	for _, s := range ch.left {
		if s.failing && !s.blind {
			continue
		}
		n++
		total += s.own
		if !s.blind {
			sighted++
		}
	}
	if sighted == 0 || sighted == n {
		return
	}
	share := (total + 1 + n - 1) / n
	kept := ch.left[:0]
	for _, s := range ch.left {
		if !s.blind || s.own+1 <= share {
			kept = append(kept, s)
		}
	}
	ch.left = kept
}
