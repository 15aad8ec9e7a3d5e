package truth

import (
	"fmt"
	"slices"
)

// Level is what a process holds at a moment when nothing is asked of it.
type Level struct {
	Goroutines  float64 `json:"goroutines"`
	Descriptors float64 `json:"descriptors"`
	HeapBytes   float64 `json:"heap_bytes"` // live, after a collection
	Series      float64 `json:"series"`     // lines of its metrics page
}

// Room is by how much a level may be above the one before.
type Room struct {
	Goroutines  float64 `json:"goroutines"`
	Descriptors float64 `json:"descriptors"`
	HeapBytes   float64 `json:"heap_bytes"`
	Series      float64 `json:"series"`
}

// Leaks are what a process has not given back.
func (l Level) Leaks(base Level, room Room) (leaks []string) {
	for _, what := range []struct {
		name              string
		is, was, tolerate float64
	}{
		{"goroutines", l.Goroutines, base.Goroutines, room.Goroutines},
		{"open descriptors", l.Descriptors, base.Descriptors, room.Descriptors},
		{"bytes of live heap", l.HeapBytes, base.HeapBytes, room.HeapBytes},
		{"lines of metrics", l.Series, base.Series, room.Series},
	} {
		if what.is > what.was+what.tolerate {
			leaks = append(leaks, fmt.Sprintf("%.0f %s at the end, %.0f after the warm-up, %.0f more are tolerated", what.is, what.name, what.was, what.tolerate))
		}
	}
	return leaks
}

// Thirds are the medians of the three thirds of a series.
func Thirds(series []float64) (medians [3]float64) {
	for i := range medians {
		part := slices.Sorted(slices.Values(series[i*len(series)/3 : (i+1)*len(series)/3]))
		if len(part) > 0 {
			medians[i] = part[len(part)/2]
		}
	}
	return medians
}

// Grows says whether the last third is above the middle one by more than a share
// and an amount.
func Grows(thirds [3]float64, share, amount float64) bool {
	return thirds[2] > thirds[1]*(1+share)+amount
}
