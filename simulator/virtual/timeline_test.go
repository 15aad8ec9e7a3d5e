package virtual

import "testing"

// Things happen by time, then by rank, then as they were planned; and what
// happens may plan more.
func TestTimelineOrder(t *testing.T) {
	var l timeline
	var got string
	say := func(s string) func() { return func() { got += s } }
	l.after(2, arrives, say("d"))
	l.after(1, arrives, say("b"))
	l.after(1, arrives, say("c"))
	l.after(1, stepEnds, func() {
		got += "a"
		l.after(2, scrapes, say("e"))
	})
	l.after(9, arrives, say("never"))
	l.run(func() bool { return len(got) == 5 })
	if got != "abcde" || l.now != 3 {
		t.Errorf("%q until %v, want abcde until 3ns", got, l.now)
	}
}
