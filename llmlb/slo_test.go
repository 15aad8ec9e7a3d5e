package llmlb

import (
	"testing"
	"time"
)

// A request is held against what its client saw: its own wait in the queue counts,
// its own mistakes and a change of mind do not.
func TestSLO(t *testing.T) {
	const second = time.Second
	arrival := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return arrival.Add(d) }
	stream := func(o Outcome, first, last time.Duration, events int) Call {
		c := Call{Arrival: arrival, Outcome: o, TokenEvents: events}
		c.Stream = true
		if events > 0 {
			c.FirstToken, c.LastToken = at(first), at(last)
		}
		return c
	}
	both := SLO{TTFT: 2 * second, TPOT: 100 * time.Millisecond}
	for _, tc := range []struct {
		name   string
		slo    SLO
		call   Call
		output int
		ended  time.Duration
		want   string
	}{
		{"a quick stream", both, stream(Served, second, 2*second, 11), 11, 2 * second, "met"},
		{"a stream on the limit", both, stream(Served, 2*second, 3*second, 11), 11, 3 * second, "met"},
		{"a late first token", both, stream(Served, 2*second+1, 3*second, 11), 11, 3 * second, "ttft"},
		{"slow tokens", both, stream(Served, second, 2*second+1, 11), 11, 3 * second, "tpot"},
		{"several tokens an event", both, stream(Served, second, 3*second, 11), 21, 3 * second, "met"},
		{"one token", both, stream(Served, second, second, 1), 1, 9 * second, "met"},
		{"only the first counts", SLO{TTFT: 2 * second}, stream(Served, second, 90*second, 11), 11, 90 * second, "met"},
		{"only the others count", SLO{TPOT: second}, stream(Served, 90*second, 91*second, 11), 11, 91 * second, "met"},

		{"a quick whole answer", both, Call{Arrival: arrival, Outcome: Served}, 30, 5 * second, "met"},
		{"a slow whole answer", both, Call{Arrival: arrival, Outcome: Served}, 30, 5*second + 1, "time"},
		{"a whole answer without a limit for its tokens", SLO{TTFT: second}, Call{Arrival: arrival, Outcome: Served}, 30, 90 * second, ""},
		{"an embedding", SLO{TTFT: second}, Call{Arrival: arrival, Outcome: Served, Features: Features{Encodes: true}}, 0, 2 * second, "time"},

		{"turned away", both, Call{Arrival: arrival, Outcome: Refused}, 0, 0, "refused"},
		{"cut", both, stream(Truncated, second, second, 3), 3, 2 * second, "failed"},
		{"a broken engine", both, stream(EngineError, 0, 0, 0), 0, second, "failed"},

		{"left in time", both, stream(ClientGone, second, 2*second, 11), 11, 2 * second, ""},
		{"left before the first token was due", both, stream(ClientGone, 0, 0, 0), 0, second, ""},
		{"left for want of a first token", both, stream(ClientGone, 0, 0, 0), 0, 3 * second, "ttft"},
		{"left for slow tokens", both, stream(ClientGone, second, 9*second, 11), 11, 9 * second, "tpot"},
		{"left a whole answer that took too long", both, Call{Arrival: arrival, Outcome: ClientGone}, 30, 9 * second, "time"},

		{"nothing to keep", SLO{}, stream(Served, 90*second, 99*second, 2), 2, 99 * second, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := NewPool("p")
			tc.call.Class, tc.call.Settings = "c", &Settings{SLO: tc.slo}
			p.CountSLO(at(tc.ended), &tc.call, tc.output)
			got, offered, told := "", 0, 0
			p.SLOResults(func(class string, r SLOResult, n uint64) {
				told++
				if offered += int(n); n > 0 {
					got = r.String()
				}
				if class != "c" {
					t.Errorf("counted for class %q", class)
				}
			})
			if got != tc.want || tc.want != "" && (offered != 1 || told != len(sloResultNames)) {
				t.Errorf("counted as %q (%d offered, %d results told), want %q", got, offered, told, tc.want)
			}
		})
	}
}
