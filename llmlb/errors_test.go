package llmlb

import (
	"testing"
	"time"
)

// "errors" in the table is the share of late attempts that failed. One failure
// is no rate, and what speaks against nobody does not count.
func TestErrorRate(t *testing.T) {
	repeat := func(n int, o Outcome) (list []Outcome) {
		for range n {
			list = append(list, o)
		}
		return list
	}
	for _, tc := range []struct {
		name  string
		ended []Outcome
		after time.Duration
		want  float64
	}{
		{"nothing happened", nil, 0, 0},
		{"all well", repeat(50, Served), 0, 0},
		{"the first attempt failed", repeat(1, EngineError), 0, 1.0 / 3},
		{"two failed", repeat(2, Unreachable), 0, 0.5},
		{"one of eight", append(repeat(7, Served), Truncated), 0, 0.1},
		{"overloaded is not served", append(repeat(7, Served), Overloaded), 0, 0.1},
		{"silent past its deadline", append(repeat(7, Served), FirstTokenTimeout), 0, 0.1},
		{"clients that leave", append(repeat(7, Served), repeat(100, ClientGone)...), 0, 0},
		{"our own refusals", repeat(9, Refused), 0, 0},
		{"always failing", repeat(198, EngineError), 0, 0.99},
		{"half forgotten", repeat(4, EngineError), errorHalf, 0.5},
		{"long ago", repeat(1000, EngineError), time.Hour, 0},
		{"clock set back", repeat(2, EngineError), -time.Hour, 0.5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r errorRate
			for _, o := range tc.ended {
				r.ended(t0, o)
			}
			if got := r.rate(t0.Add(tc.after)); got < tc.want-1e-9 || got > tc.want+1e-9 {
				t.Errorf("error rate %v, want %v", got, tc.want)
			}
		})
	}
}

// A server that has been repaired looks it, once answers come again.
func TestErrorRateRecovers(t *testing.T) {
	var r errorRate
	for i := range 20 {
		r.ended(at(float64(i)), EngineError)
	}
	broken := r.rate(at(20))
	for i := range 60 {
		r.ended(at(float64(20+i)), Served)
	}
	if repaired := r.rate(at(80)); broken < 0.8 || repaired > 0.15 {
		t.Errorf("error rate %v while broken and %v a minute after, want over 0.8 and under 0.15", broken, repaired)
	}
}

// The rate in the pool's JSON comes from real attempts; lists of models and
// health checks, which generate nothing, leave no trace in it.
func TestErrorRateIsShown(t *testing.T) {
	p := NewPool("errors")
	s := bound(t, p, Member{Address: "a:1"})
	p.Start(s, t0)
	e := s.Members[0].Endpoint
	for _, tokens := range []int{0, 0, 10, 10} {
		c := NewCall(p, s, t0)
		c.InputTokens = tokens
		c.Lease = take(p, e, t0)
		c.EndAttempt(t0, EngineError)
	}
	if got := p.Status(t0).Endpoints[0].ErrorRate; got != 0.5 {
		t.Errorf("error rate %v, want 0.5", got)
	}
}
