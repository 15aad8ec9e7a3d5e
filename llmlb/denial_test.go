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
		blind          bool
	}{
		{"idle with ten of ours", 10, 0, 0, 4, true},
		{"too soon to tell", 10, 0, 0, 3, false}, // of the first window nothing is known
		{"few of ours", 3, 0, 0, 9, false},
		{"one rank of eight", 16, 2, 0, 9, false},
		{"one of thirty", 30, 1, 1, 9, true},
		{"as many as ours", 10, 10, 0, 9, false},
		{"all in the queue", 10, 0, 10, 9, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, e := one(t)
			var leases []*Lease
			for range tc.own {
				leases = append(leases, take(p, e, t0))
			}
			for i := range tc.pages {
				e.ObserveSignals(page(float64(i), tc.running, tc.waits))
			}
			s := &Settings{Scrape: Scrape{Interval: DefaultInterval, StaleAfter: DefaultStaleAfter}}
			if got := e.Load(at(float64(tc.pages)), s).Blind; got != tc.blind {
				t.Fatalf("blind %v, want %v", got, tc.blind)
			}
			for _, l := range leases {
				l.End(at(float64(tc.pages)))
			}
			for i := range 3 {
				e.ObserveSignals(page(float64(tc.pages+i), 8, 0))
			}
			for range 5 {
				take(p, e, at(20))
			}
			e.ObserveSignals(page(21, 8, 0))
			e.ObserveSignals(page(22, 8, 0))
			if e.Load(at(22), s).Blind {
				t.Error("still blind when the page counts our calls again")
			}
		})
	}
}
