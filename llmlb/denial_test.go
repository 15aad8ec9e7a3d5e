package llmlb

import "testing"

// A page that stays idle while our own requests run there is frozen, or of another
// server. Believed, it would hide what other gateways send, and draw more.
func TestAPageThatDeniesOurCallsIsNotBelieved(t *testing.T) {
	for _, tc := range []struct {
		name           string
		own            int
		running, waits float64
		pages          int
		every          float64 // seconds
		blind          bool
	}{
		{"idle with ten of ours", 10, 0, 0, 8, 1, true},
		{"too soon to tell", 10, 0, 0, 5, 1, false},
		{"pages that come faster than an engine renews them", 10, 0, 0, 40, 0.1, false},
		{"few of ours", 7, 0, 0, 20, 1, false},
		{"one rank of eight", 16, 2, 0, 20, 1, false},
		{"one of thirty", 30, 1, 1, 8, 1, true},
		{"as many as ours", 10, 10, 0, 20, 1, false},
		{"all in the queue", 10, 0, 10, 20, 1, false},
		{"a page that tells the queue alone", 10, Unknown, 0, 20, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, e := one(t)
			var leases []*Lease
			for range tc.own {
				leases = append(leases, take(p, e, t0))
			}
			now := 0.0
			for range tc.pages {
				now += tc.every
				e.ObserveSignals(page(now, tc.running, tc.waits))
			}
			s := &Settings{Scrape: Scrape{Interval: DefaultInterval, StaleAfter: DefaultStaleAfter}}
			load := e.Load(at(now), s)
			if load.Blind != tc.blind {
				t.Fatalf("blind %v, want %v", load.Blind, tc.blind)
			}
			if load.Blind && (load.Foreign != 0 || load.KVUsage >= 0) {
				t.Errorf("blind, and yet it counts: %+v", load)
			}
			for _, l := range leases {
				l.End(at(now))
			}
			// With little of ours there nothing can prove it right. It is
			// believed again after a while.
			for range 40 {
				now++
				e.ObserveSignals(page(now, 3, 0))
			}
			if e.Load(at(now), s).Blind {
				t.Error("still blind half a minute after the last page that denied anything")
			}
		})
	}
}

// A restarted engine begins with a clean slate.
func TestARestartClearsWhatAPageDenied(t *testing.T) {
	p, e := one(t)
	for range 10 {
		take(p, e, t0)
	}
	var now float64
	told := func(start float64) {
		now++
		s := page(now, 0, 0)
		s.ProcessStart = start
		e.ObserveSignals(s)
	}
	for range 9 {
		told(1000)
	}
	s := &Settings{Scrape: Scrape{Interval: DefaultInterval, StaleAfter: DefaultStaleAfter}}
	if !e.Load(at(now), s).Blind {
		t.Fatal("not blind")
	}
	told(2000)
	if e.Load(at(now), s).Blind {
		t.Error("blind after a restart for what the process before had told")
	}
}
