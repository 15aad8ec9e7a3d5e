package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
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
		verdict         verdict // of an aim, if there is one
	}{
		// The pairs are compared, not the medians: the machine was slower in the second round.
		{"a ratio", cpuRatio, ours, plain, times(base, 1.1), 1.1, met},
		{"above the aim", cpuRatio, ours, plain, times(base, 1.3), 1.3, missed},
		{"not known to be above it", cpuRatio, ours, plain, times(base, 1.1, 1.2, 1.3), 1.2, open},
		{"a floor", rateRatio, ours, plain, times(base, 0.8), 0.8, missed},
		{"not known to be below a floor", rateRatio, ours, plain, times(base, 0.8, 0.85, 0.9), 0.85, open},
		{"above a floor", rateRatio, ours, plain, times(base, 1.2), 1.2, met},
		{"a difference, in milliseconds", addedP50, ours, plain, times(base, 2), 0.1, open},
		{"somebody else's", cpuRatio, nginx, plain, times(base, 3), 3, ""},
		{"against something else", addedP50, ours, direct, times(base, 9), 0.8, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := compare(w, c.measure, c.system, c.against, c.value, base)
			if f.Median < c.median*0.9999 || f.Median > c.median*1.0001 {
				t.Errorf("the median is %v, want %v, of %v", f.Median, c.median, f.Pairs)
			}
			if f.Met != c.verdict || (f.Aim != nil) != (c.verdict != "") {
				t.Errorf("met: %q, with %v to %v against %v; want %q", f.Met, f.Low, f.High, f.Aim, c.verdict)
			}
		})
	}
}

func TestTable(t *testing.T) {
	limit := 1.15
	r := report{
		Command: "go run ./bench/datapath", Date: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Machine: "2 cores", Took: 480,
		Systems: map[string]string{plain: "v2", nginx: "SKIPPED: there is no apt-get"},
		Figures: []figure{
			{Workload: "chat", Measure: cpuRatio, System: ours, Against: plain, Value: 101, Base: 90.04, Unit: "µs", Ratio: true, Median: 1.123, Low: 1.1, High: 1.15, Pairs: make([]float64, 15), Aim: &limit, Met: met},
			{Workload: "32k", Measure: cpuRatio, System: ours, Against: plain, Value: 101, Base: 90.04, Unit: "µs", Ratio: true, Median: 1.123, Low: 1.1, High: 1.25, Pairs: make([]float64, 15), Aim: &limit, Met: open},
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
		"| 32k | CPU per request | 101 : 90.0 µs | 1.12 × | 1.10 × to 1.25 × | ≤ 1.15 | within the spread |",
		"An aim is met when the interval does not rule it out; where the interval holds it, the table says `within the spread`.",
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
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || len(back.Figures) != 4 || back.Figures[1].Met != open || *back.Figures[0].Aim != limit {
		t.Errorf("the JSON does not come back: %v, %+v", err, back.Figures)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct{ args, wrong string }{
		{"", ""},
		{"-workloads chat,400k -pairs 3 -slice 100ms -json x", ""},
		{"-pairs 0", "must be a pair"},
		{"-slice 5", "a time has a unit, as in 500ms"},
		{"-slice 5ms", "50ms at least"},
		{"-load 0.9", "moderate"},
		{"-load NaN", "moderate"},
		{"-workloads=", "nothing after it"},
		{"-workloads chat,nonsense", "no workload is called"},
		{"-systems llm_proxy,apache", "no system is called"},
		{"-o x -json x", "the same file"},
		{"chat", "Options begin with -"},
	} {
		_, err := parse(strings.Fields(c.args))
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %v, want %q", c.args, err, c.wrong)
		}
		if status := command.Status(err); err != nil && status != 2 {
			t.Errorf("%q: exit status %d, want 2", c.args, status)
		}
	}
	if list, err := pick("400k,chat"); err != nil || len(list) != 2 || list[0].name != "400k" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := pick("chat,nonsense"); err == nil || !strings.Contains(err.Error(), `"nonsense"; there are chat,stream`) {
		t.Errorf("an unknown workload: %v", err)
	}
}
