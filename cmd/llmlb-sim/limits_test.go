package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/report"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// What the limits let through must end, and what was ever published must pass.
func TestWhatIsLongIsBornUntilItNeverEnds(t *testing.T) {
	day := &trace.Trace{Requests: []trace.Request{{}, {At: 24 * time.Hour}}}
	for _, tc := range []struct {
		line  string
		speed float64
		says  string
	}{
		{"-replicas 64 -gateways 8", 1, ""},
		{"-replicas 64 -gateways 8 -scrape 50ms", 1, ""},
		{"-replicas 64 -gateways 8 -scrape 50ms", 0.5, "takes 1.8e+09 scrapes"},
		{"-replicas 1 -scrape 10000h", 0.001, ""},
	} {
		o, err := parse(strings.Fields("-gen gsp " + tc.line))
		if err != nil {
			t.Fatal(err)
		}
		err = o.bearable(o.strategies[0], day, tc.speed)
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s at speed %v: %v, want %q", tc.line, tc.speed, err, tc.says)
		}
	}
	r := &runner{options: &options{scrape: time.Second}, workload: &workload{traces: []*trace.Trace{day}}}
	r.engines = make([]engine.Config, 64)
	r.gateways = 8
	s := strategy{name: "work"}
	if low := gridSpeed(r.lowest(s, 0)); low < 0.044 || low > 0.0445 {
		t.Errorf("a search for the capacity goes down to %v times the rate, want to where a run takes 1e9 scrapes, 0.0442", low)
	}
}

func TestNoneIsNotTheDefault(t *testing.T) {
	mean := func(line string) (sum float64) {
		t.Helper()
		o, err := parse(strings.Fields("-gen multiturn -requests 40 " + line))
		if err != nil {
			t.Fatal(err)
		}
		w, err := o.load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return w.traces[0].Stats().Input.Mean
	}
	if with, without := mean("-sigma 0"), mean("-sigma 0 -system 0"); with-without != 1000 {
		t.Errorf("-system 0 takes %v tokens from prompts that have a system prompt of 1000", with-without)
	}
	o, err := parse(strings.Fields("-gen multiturn -requests 40 -think 0s -sigma 0 -question 100 -system 0"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := o.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range w.traces[0].Requests {
		if q.Think != 0 || q.Follows == 0 && q.Input != 100 {
			t.Fatalf("a request is %+v, want no time to think and questions of 100 tokens all", q)
		}
	}
}

func TestBlocksOfAnotherSize(t *testing.T) {
	line := small + "-system 1000 "
	small, preset, large := rows(t, line+"-block 1")[0], rows(t, line)[0], rows(t, line+"-block 512")[0]
	if same := rows(t, line+"-block 16")[0]; same.HitRatio != preset.HitRatio || same.TTFT != preset.TTFT {
		t.Errorf("blocks of 16 tokens are not the default: %+v and %+v", same.Numbers, preset.Numbers)
	}
	// Of a shared prompt of 1000 tokens whole blocks are found: 1000, 992 or 512.
	if !(small.HitRatio >= preset.HitRatio && preset.HitRatio > large.HitRatio+0.2) {
		t.Errorf("the hit ratios with blocks of 1, 16 and 512 tokens are %v, %v and %v", small.HitRatio, preset.HitRatio, large.HitRatio)
	}
}

func TestAMisspeltPageFailsBeforeTheTraceIsRead(t *testing.T) {
	dir := t.TempDir()
	code, _, stderr := run(t, "-trace "+dir+"/none.jsonl -html "+dir+"/none/x.html")
	if code != 1 || !strings.Contains(stderr, "writing -html: open") || strings.Contains(stderr, "none.jsonl") {
		t.Errorf("exit code %d, it says %q, want the page's error and not the trace's", code, stderr)
	}
	if code, _, stderr := run(t, "-trace "+dir+"/none.jsonl -html "+dir); code != 1 || !strings.Contains(stderr, "writing -html: open "+dir) {
		t.Errorf("exit code %d, a page that is a directory says %q", code, stderr)
	}
}

func TestARunThatFailsLeavesThePageAlone(t *testing.T) {
	dir := t.TempDir()
	fresh, old := filepath.Join(dir, "new.html"), filepath.Join(dir, "old.html")
	if err := os.WriteFile(old, []byte(strings.Repeat("an older and longer report ", 1e4)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{fresh, old} {
		if code, _, _ := run(t, "-trace "+dir+"/none.jsonl -html "+file); code != 1 {
			t.Fatalf("exit code %d", code)
		}
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("a page without a report is left behind: %v", err)
	}
	if text, err := os.ReadFile(old); err != nil || !strings.HasPrefix(string(text), "an older") {
		t.Errorf("the report of before is gone: %q, %v", text[:min(len(text), 20)], err)
	}
	if code, _, stderr := run(t, "-gen gsp -requests 10 -groups 2 -html "+old); code != 0 {
		t.Fatal(stderr)
	}
	if text, _ := os.ReadFile(old); strings.Contains(string(text), "an older") || !strings.HasSuffix(strings.TrimSpace(string(text)), "</html>") {
		t.Error("the new report has something of the old one")
	}
}

func TestACapacityThatIsNotFoundSaysWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.html")
	for _, tc := range []struct{ line, value, says string }{
		// Two requests are never too many.
		{"-gen gsp -requests 2 -groups 1", "–", "capacity of ideal, work: not known, because 95 % of the requests meet the SLO even at 1000 times the trace's rate: the workload is too small, or the SLO too loose, to show what is too much: raise -requests or take fewer -replicas"},
		{small + "-slo-ttft 1ms", "0.000×", "capacity of ideal, work: 0, because less than 95 % of the requests meet the SLO at any speed"},
	} {
		line := tc.line + " -strategy work,ideal -capacity"
		code, table, stderr := run(t, line+" -html "+file)
		if code != 0 || !strings.Contains(table, tc.says) || !strings.Contains(table, tc.value) {
			t.Errorf("%s\nexit code %d: %s%s\nwant %q", line, code, table, stderr, tc.says)
		}
		page, _ := os.ReadFile(file)
		if says := strings.ReplaceAll(tc.says, "'", "&#39;"); !strings.Contains(string(page), "<li>"+says) {
			t.Errorf("%s: the page does not say %q", line, says)
		}
		for _, r := range rows(t, line) {
			if c := r.Capacity; c.Ratio != nil || c.Reason == "" || !strings.Contains(tc.says, c.Reason[:20]) {
				t.Errorf("%s: %s has %+v", line, r.Strategy, c)
			}
		}
	}
	for _, r := range rows(t, small+"-strategy round_robin -capacity -slo-ttft 300ms -slo-tpot 30ms") {
		if r.Reason != "" {
			t.Errorf("a capacity that is known has the reason %q", r.Reason)
		}
	}
}

// Where a strategy carries more than the ideal pool, that is no ideal: a part of it
// would be told of everybody.
func TestNoRatioToAnIdealPoolThatIsWorse(t *testing.T) {
	for _, tc := range []struct {
		ideal  *float64
		others []*float64
		want   bool
	}{
		{new(2.0), []*float64{new(1.0), new(2.0)}, true},
		{new(2.0), []*float64{new(2.09)}, true}, // by chance
		{new(0.28), []*float64{new(7.463), new(0.1)}, false},
		{new(2.0), []*float64{nil}, false}, // no load was too much
	} {
		if got := yardstick(tc.ideal, tc.others); got != tc.want {
			t.Errorf("an ideal pool of %v is a yardstick: %v, want %v", *tc.ideal, got, tc.want)
		}
	}
	if got := reason(&report.Capacity{Value: new(7.463)}, new(0.28), new(0.28)); !strings.Contains(got, "is not told, because a strategy carries more than an ideal pool here") {
		t.Errorf("the reason is %q", got)
	}
}

func TestARatioToWhatIsNotKnownSaysWhy(t *testing.T) {
	c := func(x *float64) string { return reason(&report.Capacity{Value: x}, nil, new(2.0)) }
	if got := c(new(1.0)); !strings.Contains(got, "its part of the ideal pool's is not known, because in an ideal pool 95 % of the requests meet") {
		t.Errorf("the reason is %q", got)
	}
}
