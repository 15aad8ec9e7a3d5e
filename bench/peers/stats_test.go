package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRatio(t *testing.T) {
	tests := []struct {
		name string
		a, b []float64
		want ratio
	}{
		{"twice as much in every round, however slow the round", []float64{2, 20, 4}, []float64{1, 10, 2}, ratio{2, 2, 2}},
		{"one round that was disturbed", []float64{3, 3, 3, 3, 3, 3, 3, 3, 900}, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}, ratio{3, 3, 3}},
		{"one round", []float64{3}, []float64{2}, ratio{1.5, 1.5, 1.5}},
	}
	for _, test := range tests {
		if got := ratioOf(test.a, test.b, 1); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	spread := ratioOf([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}, 1)
	if spread.Median != 5 || spread.Low < 2 || spread.Low > 4 || spread.High < 6 || spread.High > 8 {
		t.Errorf("of 1 to 9: %v", spread)
	}
	if spread != ratioOf([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}, 1) {
		t.Error("the same numbers and seed gave another interval")
	}
}

// The table shows CPU time for one goroutine and time by the clock for many, and
// how many times ours each peer takes.
func TestTable(t *testing.T) {
	sides := func() []sideResult {
		return []sideResult{
			{Name: nameOurs, CPU: 10, Wall: 12, Allocs: 5},
			{Name: nameAIBrix, CPU: 33, Wall: 480, Allocs: 700, CPURatio: ratio{3.3, 3.1, 3.5}, WallRatio: ratio{40, 39, 41}},
		}
	}
	r := &result{Cells: []cellResult{
		{cell{chat, 64, 32, 1}, sides()},
		{cell{chat, 64, 32, 16}, sides()},
	}}
	var out bytes.Buffer
	r.table(&out)
	for _, want := range []string{
		"| 64 | 32 KB | 10 (5) |", "| 33 (700) × 3.3 [3.1, 3.5] |",
		"| 64 | 32 KB | 12 (5) |", "| 480 (700) × 40 [39, 41] |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

// One cell from end to end.
func TestRun(t *testing.T) {
	b, err := newBench(cell{chat, 2, 1, 4}, loads(2), 1, 8)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := b.run(2)
	if err != nil {
		t.Fatal(err)
	}
	r := newResult(2, 1)
	r.add(b, samples)
	for _, s := range r.Cells[0].Sides {
		if s.Wall <= 0 || s.Allocs <= 0 {
			t.Errorf("%s: %v µs and %v allocations a pick", s.Name, s.Wall, s.Allocs)
		}
	}
}
