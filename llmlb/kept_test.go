package llmlb

import (
	"testing"
	"time"
)

// Of several answers that refused a request the client gets the most useful one,
// with the shortest wait that any server asked for.
func TestKeep(t *testing.T) {
	busy := func(status int, after time.Duration) *Kept {
		return &Kept{Outcome: Overloaded, Status: status, RetryAfter: after}
	}
	broken := func(status int) *Kept { return &Kept{Outcome: EngineError, Status: status} }
	for _, tc := range []struct {
		name   string
		kept   []*Kept
		status int // 0 for nothing
		after  time.Duration
	}{
		{"nothing", []*Kept{nil}, 0, 0},
		{"one", []*Kept{broken(500)}, 500, 0},
		{"the newer error", []*Kept{broken(500), broken(502)}, 502, 0},
		{"an attempt without an answer after one with", []*Kept{broken(500), nil}, 500, 0},
		{"overload after an error", []*Kept{broken(500), busy(503, 2)}, 503, 2},
		{"an error after overload", []*Kept{busy(503, 2), broken(500)}, 503, 2},
		{"the shorter wait first", []*Kept{busy(503, 2), busy(429, 7)}, 429, 2},
		{"the shorter wait last", []*Kept{busy(503, 7), busy(429, 2)}, 429, 2},
		{"one that asks for nothing", []*Kept{busy(503, 7), busy(429, 0)}, 429, 7},
		{"only the other asks", []*Kept{busy(503, 0), busy(429, 7)}, 429, 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c Call
			for _, k := range tc.kept {
				c.Keep(k)
			}
			switch {
			case tc.status == 0 && c.Kept != nil:
				t.Errorf("kept %+v, want nothing", c.Kept)
			case tc.status != 0 && (c.Kept == nil || c.Kept.Status != tc.status || c.Kept.RetryAfter != tc.after):
				t.Errorf("kept %+v, want %d and %v", c.Kept, tc.status, tc.after)
			}
		})
	}
}

// Who had too much to do is asked again after a wait, who failed is not.
func TestReadmit(t *testing.T) {
	p := NewPool("readmit")
	s := bound(t, p, Member{Address: "busy:1"}, Member{Address: "broken:1"}, Member{Address: "both:1"})
	busy, broken, both := s.Members[0].Endpoint, s.Members[1].Endpoint, s.Members[2].Endpoint
	c := NewCall(p, s, t0)
	c.ExcludeBusy(busy)
	c.Exclude(busy) // as whoever only knows that the attempt failed does
	c.Exclude(broken)
	c.ExcludeBusy(both)
	c.Exhausted, c.RetryAt = true, at(1)
	if !c.Excluded(busy) || !c.Spent(busy) || !c.Excluded(broken) || c.Spent(broken) {
		t.Fatal("excluded wrongly")
	}
	c.Readmit()
	c.Exclude(both)
	if c.Excluded(busy) || c.Spent(busy) || !c.Excluded(broken) || !c.Excluded(both) {
		t.Error("after the wait the wrong ones are excluded")
	}
	if c.Exhausted || !c.RetryAt.IsZero() {
		t.Error("the Call is not ready for another choice")
	}
	c.Readmit()
	if !c.Excluded(both) {
		t.Error("one that failed after the wait is readmitted")
	}
}
