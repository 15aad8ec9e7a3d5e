package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestCompare(t *testing.T) {
	w := &workload{name: "chat", aims: map[measure]aim{cpuRatio: 1.15, rateRatio: 0.88, addedP50: 0.1}}
	base := []float64{100e-6, 200e-6, 100e-6, 150e-6, 100e-6}
	times := func(list []float64, by ...float64) []float64 {
		out := make([]float64, len(list))
		for i := range list {
			out[i] = list[i] * by[i%len(by)]
		}
		return out
	}
	for _, c := range []struct {
		name            string
		measure         measure
		system, against string
		value           []float64
		median          float64
		aim, met        bool
	}{
		// The pairs are compared, not the medians: the machine was slower in the second round.
		{"a ratio", cpuRatio, ours, plain, times(base, 1.1), 1.1, true, true},
		{"above the aim", cpuRatio, ours, plain, times(base, 1.3), 1.3, true, false},
		{"not known to be above it", cpuRatio, ours, plain, times(base, 1.1, 1.2, 1.3), 1.2, true, true},
		{"a floor", rateRatio, ours, plain, times(base, 0.8), 0.8, true, false},
		{"above a floor", rateRatio, ours, plain, times(base, 1.2), 1.2, true, true},
		{"a difference, in milliseconds", addedP50, ours, plain, times(base, 2), 0.1, true, true},
		{"somebody else's", cpuRatio, nginx, plain, times(base, 3), 3, false, false},
		{"against something else", addedP50, ours, direct, times(base, 9), 0.8, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := compare(w, c.measure, c.system, c.against, c.value, base)
			if f.Median < c.median*0.9999 || f.Median > c.median*1.0001 {
				t.Errorf("the median is %v, want %v, of %v", f.Median, c.median, f.Pairs)
			}
			if (f.Aim != nil) != c.aim {
				t.Errorf("the aim is %v", f.Aim)
			}
			if f.Met != nil && *f.Met != c.met {
				t.Errorf("met: %t, with %v to %v against %v", *f.Met, f.Low, f.High, *f.Aim)
			}
		})
	}
}

func TestTable(t *testing.T) {
	limit, met := 1.15, true
	r := report{
		Command: "go run ./bench/datapath", Date: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Machine: "2 cores", Took: 480,
		Systems: map[string]string{plain: "v2", nginx: "SKIPPED: there is no apt-get"},
		Figures: []figure{
			{Workload: "chat", Measure: cpuRatio, System: ours, Against: plain, Value: 101, Base: 90.04, Unit: "µs", Ratio: true, Median: 1.123, Low: 1.1, High: 1.15, Pairs: make([]float64, 15), Aim: &limit, Met: &met},
			{Workload: "chat", Measure: addedP99, System: haproxy, Against: plain, Value: 0.5, Base: 1.25, Unit: "ms", Median: -0.75, Low: -1, High: 0.5, Pairs: make([]float64, 15)},
			{Workload: "streams-8000", Measure: addedRSS, System: nginx, Against: plain, Value: 17, Base: 87, Unit: "KiB", Median: -70, Low: -70, High: -70, Pairs: make([]float64, 1)},
		},
		Asides: []aside{{"chat", ours, "idle, of one core", 12.34, "%"}},
	}
	var b strings.Builder
	if err := r.markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"`go run ./bench/datapath`, 2026-12-01, 2 cores; 480 s. plain Caddy: v2. nginx: SKIPPED: there is no apt-get.",
		"| chat | CPU per request | 101 : 90.0 µs | 1.12 × | 1.10 × to 1.15 × | ≤ 1.15 | yes |",
		"| chat | added latency p99 | HAProxy | plain Caddy | 0.500 : 1.25 ms | − 0.750 ms | − 1.00 ms to + 0.500 ms |",
		"| streams-8000 | added RSS per stream | nginx | plain Caddy | 17.0 : 87.0 KiB | − 70.0 KiB | – |",
		"| chat | idle, of one core | llm_proxy | 12.3 % |",
	} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("there is no line\n%s\nin\n%s", line, b.String())
		}
	}
	// A table's rows have as many cells as its head.
	cells := 0
	for line := range strings.SplitSeq(b.String(), "\n") {
		switch n := strings.Count(line, "|"); {
		case n == 0:
			cells = 0
		case cells == 0:
			cells = n
		case n != cells:
			t.Errorf("%d cells, and the head has %d: %s", n, cells, line)
		}
	}
	b.Reset()
	if err := r.json(&b); err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || len(back.Figures) != 3 || *back.Figures[0].Aim != limit {
		t.Errorf("the JSON does not come back: %v, %+v", err, back.Figures)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct{ args, wrong string }{
		{"", ""},
		{"-workloads chat,400k -pairs 3 -slice 100ms -json x", ""},
		{"-pairs 0", "must be a pair"},
		{"-load 0.9", "moderate"},
		{"chat", "is no flag"},
	} {
		_, err := parse(strings.Fields(c.args))
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %v, want %q", c.args, err, c.wrong)
		}
	}
	if list, err := pick("400k,chat"); err != nil || len(list) != 2 || list[0].name != "400k" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := pick("chat,nonsense"); err == nil || !strings.Contains(err.Error(), `"nonsense"; there are chat,stream`) {
		t.Errorf("an unknown workload: %v", err)
	}
}
