package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// byHeader makes a class of requests that name it, whoever they come from.
func byHeader(class, options string) string {
	return "class " + class + " {\nexpression {http.request.header.X-Class} == \"" + class + "\"\n" + options + "\n}\n"
}

// Requests of a high class keep coming, always ten in line. One of a lower class,
// there before them, waits for its share of the work, but it is served: with 10 %
// after about ten of them. Otherwise the high ones come first.
func TestALowClassIsNotStarved(t *testing.T) {
	for _, tc := range []struct {
		share       string
		least, most int
	}{
		{"", 16, 25}, // 5 %
		{"share 10%", 7, 13},
		{"share 50%", 1, 4},
	} {
		t.Run(tc.share, func(t *testing.T) {
			const waiting, n = 10, 30
			g, a := single(t, 1, byHeader("high", "")+byHeader("low", tc.share)+"class rest {\n}\n")
			for i := range 3 { // from which it is known how long answers are
				g.post(distinct(i))
			}
			g.idle(t)
			s := stepping(t, a)
			list := []<-chan reply{g.asks(t, http.DefaultClient, "high first", "X-Class", "high")}
			s.arrived()
			list = append(list, g.queues(t, http.DefaultClient, []string{"low 0"}, "X-Class", "low")...)
			highs := numbered("high", n)
			list = append(list, g.queues(t, http.DefaultClient, highs[:waiting], "X-Class", "high")...)
			var order []string
			for i := range n - waiting {
				list = append(list, g.queues(t, http.DefaultClient, highs[waiting+i:waiting+i+1], "X-Class", "high")...)
				order = append(order, s.serve(1)...)
			}
			order = append(order, s.serve(waiting+1)...)
			s.answer()
			allServed(t, list)
			at := slices.Index(order, "low 0")
			if at < tc.least || at > tc.most {
				t.Errorf("%d of the high class were served before the one that had waited longest, want %d to %d", at, tc.least, tc.most)
			}
			if order = slices.DeleteFunc(order, func(q string) bool { return strings.HasPrefix(q, "low") }); !slices.Equal(order, highs) {
				t.Errorf("the high class was served %v, want the order of arrival", order)
			}
		})
	}
}

// A line of a lower class fills the queue. A higher class does not count it: its
// requests still find room to wait, and are served first.
func TestALowClassDoesNotFillTheQueueForAHighOne(t *testing.T) {
	g, a := single(t, 1, "queue 3\n"+byHeader("high", "")+byHeader("low", "share 0"))
	s := stepping(t, a)
	list := []<-chan reply{g.asks(t, http.DefaultClient, "low first", "X-Class", "low")}
	s.arrived()
	list = append(list, g.queues(t, http.DefaultClient, numbered("low", 3), "X-Class", "low")...)
	arrives(t, "an answer", g.asks(t, http.DefaultClient, "low 3", "X-Class", "low")).refusedAs(t, "a fourth of the low class", "queue_full")
	list = append(list, g.queues(t, http.DefaultClient, numbered("high", 3), "X-Class", "high")...)
	arrives(t, "an answer", g.asks(t, http.DefaultClient, "high 3", "X-Class", "high")).refusedAs(t, "a fourth of the high class", "queue_full")
	order := s.serve(6)
	s.answer()
	allServed(t, list)
	if want := append(numbered("high", 3), numbered("low", 3)...); !slices.Equal(order, want) {
		t.Errorf("served %v, want %v", order, want)
	}
}
