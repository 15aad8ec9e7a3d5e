package main

import (
	"flag"
	"iter"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/report"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

func text(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func flagNames(o *options) iter.Seq[string] {
	return func(yield func(string) bool) {
		stopped := false
		o.flags().VisitAll(func(f *flag.Flag) { stopped = stopped || !yield(f.Name) })
	}
}

func TestTheEdgeIsFoundFromAnywhere(t *testing.T) {
	for _, want := range []int{-gridEnds - 1, -gridEnds, -700, -3, 0, 1, 178, gridEnds - 1, gridEnds} {
		for _, begin := range []int{-gridEnds, -50, 0, 178, 179, gridEnds} {
			for _, stride := range []int{4, 32} {
				runs := 0
				got, err := edge(-gridEnds, begin, stride, func(k int) (bool, error) {
					if k < -gridEnds || k > gridEnds {
						t.Fatalf("%d is off the grid", k)
					}
					runs++
					return k <= want, nil
				})
				if err != nil || got != want {
					t.Errorf("from %d the edge at %d is found at %d, %v", begin, want, got, err)
				}
				if runs > 25 {
					t.Errorf("from %d it took %d runs to find %d", begin, runs, want)
				}
			}
		}
	}
}

func TestTheGridIsHalfAPerCentFine(t *testing.T) {
	for k := -gridEnds; k < gridEnds; k++ {
		if part := gridSpeed(k+1) / gridSpeed(k); part > 1.0052 || part < 1.0048 {
			t.Fatalf("%v is followed by %v", gridSpeed(k), gridSpeed(k+1))
		}
	}
	if gridSpeed(0) != 1 {
		t.Errorf("the trace's own rate is not on the grid, but %v", gridSpeed(0))
	}
}

func TestTheVerdictIsGivenAsSoonAsItIsCertain(t *testing.T) {
	offered := &trace.Trace{Requests: make([]trace.Request, 41)}
	for i := range offered.Requests {
		offered.Requests[i].At = time.Duration(i) * time.Second
	}
	good := virtual.Record{Arrived: 2 * time.Second, First: 3 * time.Second, Last: 3 * time.Second, Output: 1}
	late := good
	late.First, late.Last = time.Minute, time.Minute
	warm := late
	warm.Arrived = 0
	// Of the 40 that count 38 are needed.
	begin := func() *verdict { return newVerdict(offered, report.SLO{TTFT: 5 * time.Second}, time.Second) }
	for _, tc := range []struct {
		name string
		of   []virtual.Record
		last virtual.Record
		left int // whether the last one leaves it open: -1 if so
	}{
		{"two late ones leave it open", []virtual.Record{late}, late, -1},
		{"a third does not", []virtual.Record{late, late}, late, 0},
		{"37 good ones leave it open", repeat(good, 36), good, -1},
		{"the 38th does not", repeat(good, 37), good, 0},
		{"who fills caches does not count", append(repeat(warm, 9), late, late), warm, -1},
	} {
		v := begin()
		for i := range tc.of {
			if !v.ended(&tc.of[i]) {
				t.Errorf("%s: it was certain after %d", tc.name, i+1)
			}
		}
		if open := v.ended(&tc.last); open != (tc.left == -1) {
			t.Errorf("%s: open is %v", tc.name, open)
		}
	}
}

func repeat(r virtual.Record, n int) []virtual.Record {
	list := make([]virtual.Record, n)
	for i := range list {
		list[i] = r
	}
	return list
}
