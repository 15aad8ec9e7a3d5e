package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/baseline"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/report"
)

// run is the command, and what it says.
func run(t *testing.T, line string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = command(t.Context(), strings.Fields(line), &out, &err)
	return code, out.String(), err.String()
}

// rows is the command's JSON.
func rows(t *testing.T, line string) []report.Row {
	t.Helper()
	code, stdout, stderr := run(t, line+" -json")
	if code != 0 {
		t.Fatalf("%s: exit code %d, %s", line, code, stderr)
	}
	var list []report.Row
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return list
}

// small is a workload that two servers are busy with for some seconds.
const small = "-gen gsp -requests 120 -groups 12 -rate 12 -replicas 2 "

func TestMistakesAreExplained(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.jsonl")
	if err := os.WriteFile(bad, []byte("{\"timestamp\":0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		line string
		code int
		says string
	}{
		{"", 2, "nothing to replay: name a file with -trace, or make a workload up with -gen gsp|b2b|multiturn"},
		{"x.jsonl", 2, "-trace x.jsonl"},
		{"-trace x -gen gsp", 2, "-trace and -gen are both given"},
		{"-nonsense", 2, "-nonsense"},
		{"-gen gsp -speed fast", 2, `invalid value "fast" for flag -speed: it takes a number`},
		{"-gen gsp -replicas 8.5", 2, `invalid value "8.5" for flag -replicas: it takes a whole number up to 4096`},
		{"-gen gsp -seed -1", 2, `invalid value "-1" for flag -seed: it takes a whole number of 0 or more`},
		{"-gen gsp -kv 99999999999999999999", 2, "for flag -kv: it takes a whole number up to 67108864"},
		{"-gen gsp -requests 99999999999999999999", 2, "for flag -requests: it takes a whole number up to 4000000"},
		{"-gen gsp -requests 99999999999", 2, "-requests 99999999999 is more than it takes, a whole number up to 4000000"},
		{"-gen gsp -rate a-b", 2, `invalid value "a-b" for flag -rate: it takes a number`},
		{"-gen gsp -json=perhaps", 2, "for -json: it takes true or false"},
		{"-gen gsp -kv 100", 2, "every prompt is longer than a server's memory, 96 tokens"},
		{"-gen gsp -kv 2200", 2, "every prompt with its answer is longer than a server's memory, 2192 tokens"},
		{"-gen gsp -speed 0", 2, "-speed 0 is not within 0.001 to 1000"},
		{"-gen gsp -speed NaN", 2, "-speed NaN is not within"},
		{"-gen gsp -attention -1", 2, "-attention -1 is not within 0.01 to 100"},
		{"-gen gsp -replicas 0", 2, "-replicas 0 is not within 1 to"},
		{"-gen gsp -seeds 0", 2, "-seeds 0 is not within 1 to"},
		{"-gen gsp -gateways 100000", 2, "-gateways 100000 is not within"},
		{"-gen gsp -scrape 0s", 2, "-scrape 0s is not within 1ms to 10000h"},
		{"-gen gsp -first 0s", 2, "-first 0s is not within"},
		{"-gen gsp -lag -1s", 2, "-lag -1s is not within 0s to 1h"},
		{"-gen gps", 2, `-gen "gps" is unknown; have gsp, b2b, multiturn`},
		{"-gen gsp -turns 3", 2, "-gen gsp has no -turns; it takes -rate, -requests, -groups"},
		{"-gen gsp -groups 10 -requests 5", 2, "-requests 5 are fewer than -groups 10"},
		{"-trace x -think 3s", 2, "-think shapes a workload that is made up: it goes with -gen multiturn"},
		{"-gen gsp -rate -1", 2, "-rate -1 must be above 0; leave it out for the generator's default"},
		{"-trace x -format csv", 2, `-format "csv" is unknown; have mooncake, azure, servegen`},
		{"-gen gsp -format azure", 2, "-format goes with -trace"},
		{"-gen gsp -strategy best", 2, `-strategy "best" is unknown; have all, or of these as many as you like, separated by commas: work, prefix_spill, weighted, random`},
		{"-gen gsp -strategy oracle:work", 2, "work is what serves traffic"},
		{"-gen gsp -strategy oracle:best", 2, `-strategy "oracle:best" is unknown`},
		{"-gen gsp -engine 9b", 2, `there is no engine "9b"; have 8b-h100, 8b-a100`},
		{"-gen gsp -engine two*8b-h100", 2, `"two" is not a number of servers; write for example 4*8b-h100,4*8b-a100`},
		{"-gen gsp -engine 2*8b-h100,8b-a100 -replicas 8", 2, "has 3 servers and -replicas says 8: leave -replicas out"},
		{"-gen gsp -speed 1e-9", 2, "-speed 1e-09 is not within 0.001 to 1000"},
		{"-gen gsp -speed Inf", 2, "-speed +Inf is not within"},
		{"-gen gsp -scrape 1ns", 2, "-scrape 1ns is not within 1ms to 10000h"},
		{"-gen gsp -scrape 5", 2, `invalid value "5" for flag -scrape: a time has a unit, as in 500ms, 5s or 10m`},
		{"-gen gsp -overhead 9000h", 2, "-overhead 9000h0m0s is not within 0s to 1h"},
		{"-gen gsp -kv 0", 2, "-kv 0 is not within 1 to 67108864"},
		{"-gen gsp -block 0", 2, "-block 0 is not within 1 to 1024"},
		{"-gen gsp -block 1025", 2, "-block 1025 is not within 1 to 1024"},
		{"-gen gsp -block 1024 -kv 1000", 2, "kv tokens of 1000 hold no block of 1024"},
		{"-gen gsp -html= -json", 2, "-html is given, and nothing after it"},
		{"-trace x -html x", 2, "-trace and -html are the same file, x"},
		{"-trace " + bad + " -cpuprofile " + dir + "/../" + filepath.Base(dir) + "/bad.jsonl", 2, "-trace and -cpuprofile are the same file"},
		{"-gen gsp -replicas 4096 -gateways 17", 2, "4096 servers times -gateways 17 is 69632; the limit is 65536"},
		{"-gen gsp -replicas 4096 -block 1", 2, "4096 servers have 1835008000 blocks of KV memory, more than the 134217728"},
		{"-gen gsp -lag 1h -scrape 1ms", 2, "-lag 1h0m0s with -scrape 1ms has 28800000 scrapes under way at a time"},
		{"-gen gsp -strategy work,llmd -lag 1h -gateways 8", 2, "-lag 1h0m0s with -scrape 50ms has"},
		{"-gen gsp -rate 0.0001 -scrape 1ms", 2, "work with -scrape 1ms and -speed 1 takes 8.1e+10 scrapes; the limit is 1e+09: take a longer -scrape, a higher -speed, or a part"},
		{"-gen gsp -rate 0.0001 -speed 0.001 -scrape 10000h", 2, "at -speed 0.001 the workload lasts 117"},
		{"-gen gsp -requests 100000 -seeds 100", 2, "the workloads of -seeds 100 would take"},
		{"-gen gsp -requests -1", 2, "-requests -1 must be at least 1; leave it out for the generator's default"},
		{"-gen gsp -requests 0", 2, "-requests 0 must be at least 1"},
		{"-gen b2b -users 0", 2, "-users 0 must be at least 1"},
		{"-gen gsp -system -1", 2, "-system -1 must not be negative"},
		{"-gen gsp -rate NaN", 2, "-rate NaN must be above 0"},
		{"-gen multiturn -think -1s", 2, "-think -1s must not be negative"},
		{"-gen multiturn -sigma -1", 2, "-sigma -1 must be 0 or more"},
		{"-gen multiturn -sigma NaN", 2, "-sigma NaN must be 0 or more"},
		{"-gen gsp -oracle", 2, "-oracle has nothing to show: -strategy work names no baseline. Baselines are random,"},
		{"-gen gsp -oracle -strategy weighted,ideal", 2, "-oracle has nothing to show: -strategy weighted,ideal names no baseline"},
		{"-trace " + bad + " -format azure", 1, "looks like format mooncake, and not like azure: use -format mooncake, or leave -format out"},
		{"-gen gsp -kv 8", 2, "kv tokens of 8 hold no block of 16"},
		{"-trace " + dir + "/none.jsonl", 1, "none.jsonl: no such file"},
		{"-trace " + bad, 1, "line 1: input_length is missing"},
		{"-trace " + dir, 1, "is a directory"},
		{small + "-html " + dir + "/none/x.html", 1, "writing -html: open"},
	} {
		code, stdout, stderr := run(t, tc.line)
		if code != tc.code || !strings.Contains(stderr, tc.says) || stdout != "" {
			t.Errorf("llmlb-sim %s\nexit code %d, want %d; it says %q, want %q", tc.line, code, tc.code, stderr, tc.says)
		}
	}
}

func TestHelpNamesAllOptions(t *testing.T) {
	code, text, _ := run(t, "-help")
	if code != 0 {
		t.Errorf("-help has the exit code %d", code)
	}
	var o options
	for name := range flagNames(&o) {
		if !strings.Contains(text, "-"+name+" ") {
			t.Errorf("-help does not name -%s", name)
		}
	}
	for _, name := range append(baseline.Names(), "work", "8b-a100", "servegen", "multiturn") {
		if !strings.Contains(text, name) {
			t.Errorf("-help does not name %s", name)
		}
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "%!") {
			t.Errorf("-help has a broken line: %s", line)
		}
	}
}

func TestOneSeedIsTheSameByteForByte(t *testing.T) {
	line := small + "-strategy work,weighted,llmd,oracle:min_ttft,ideal -gateways 2 -seeds 2 -capacity -json"
	_, first, stderr := run(t, line)
	if len(first) < 1000 {
		t.Fatalf("%s: %s", line, stderr)
	}
	before := runtime.GOMAXPROCS(1) // one run after the other
	_, again, _ := run(t, line+" -html "+filepath.Join(t.TempDir(), "x.html"))
	runtime.GOMAXPROCS(before)
	if again != first {
		t.Errorf("two runs differ:\n%s\n%s", first, again)
	}
	if _, other, _ := run(t, line+" -seed 7"); other == first {
		t.Error("another seed makes no difference")
	}
}

func TestARowForEachStrategyInTheOrderAsked(t *testing.T) {
	var got []string
	for _, r := range rows(t, small+"-strategy ideal,work,llmd,work,oracle:llmd -speed 2 -scrape 2s") {
		got = append(got, r.Strategy)
		if wantOracle := r.Strategy == "ideal" || r.Strategy == "oracle:llmd"; r.Oracle != wantOracle {
			t.Errorf("%s: oracle is %v", r.Strategy, r.Oracle)
		}
		if r.Requests != 120 || r.Refused != 0 || r.Capacity != nil || r.Speed != 2 || r.Trace != "gsp" || r.ScrapeMS != 2000 {
			t.Errorf("a row is %+v", r)
		}
		if !(r.TTFT.Mean > 0 && r.TTFT.P50 <= r.TTFT.P90 && r.TTFT.P90 <= r.TTFT.P99 && r.E2E.P99 > r.TTFT.P99 && r.HitRatio > 0.3) {
			t.Errorf("these are no plausible numbers: %+v", r.Numbers)
		}
	}
	if s := strings.Join(got, " "); s != "ideal work llmd oracle:llmd" {
		t.Errorf("the strategies are %s", s)
	}
}

func TestAllIsEveryStrategy(t *testing.T) {
	list := rows(t, "-gen gsp -requests 20 -groups 5 -strategy all")
	names := make(map[string]bool)
	for _, r := range list {
		names[r.Strategy] = true
	}
	if want := 3 + 2*len(baseline.Names()) + 2 - 5; len(list) != want || len(names) != want {
		t.Errorf("all is %d strategies, %d different ones; want %d", len(list), len(names), want)
	}
	for _, name := range baseline.Names() {
		if blind := slices.Contains([]string{"random", "round_robin", "p2c", "least_requests", "chwbl"}, name); names[baseline.Oracle+name] == blind {
			t.Errorf("%s is shown what is true: %v", name, !blind)
		}
	}
	for _, r := range rows(t, "-gen gsp -requests 20 -groups 5 -strategy random,work,lpwl -oracle") {
		if r.Oracle != (r.Strategy != "work") {
			t.Errorf("with -oracle, %s has oracle %v", r.Strategy, r.Oracle)
		}
	}
}

// What all leaves out is what makes no difference: with one gateway five rows, with
// more only those that look at nothing.
func TestWhatAllLeavesOutIsTheSame(t *testing.T) {
	for _, gateways := range []int{1, 2} {
		for _, name := range baseline.Names() {
			if !knowsAll(name, gateways) {
				continue
			}
			list := rows(t, fmt.Sprintf("%s -gateways %d -strategy %s,%s%s", small, gateways, name, baseline.Oracle, name))
			if len(list) != 2 || list[0].TTFT != list[1].TTFT || list[0].E2E != list[1].E2E {
				t.Errorf("with %d gateways %s is left out and different: %+v", gateways, list[len(list)-1].Strategy, list)
			}
		}
	}
	if list := rows(t, small+"-gateways 2 -strategy least_requests,oracle:least_requests"); list[0].TTFT == list[1].TTFT {
		t.Error("what another gateway has sent makes no difference to who is shown it")
	}
}

func TestABaselineReadsServersAsOftenAsItIsPublished(t *testing.T) {
	for line, want := range map[string]float64{"": 50, "-scrape 1s": 1000} {
		if got := rows(t, small+"-strategy llmd "+line)[0].ScrapeMS; got != want {
			t.Errorf("llmd %s is scraped every %v ms, want %v", line, got, want)
		}
	}
}

func TestCapacityIsComparedWithTheIdealPools(t *testing.T) {
	list := rows(t, small+"-strategy ideal,round_robin,random -capacity -slo-ttft 300ms -slo-tpot 30ms")
	ideal, robin, random := list[0].Capacity, list[1].Capacity, list[2].Capacity
	if *ideal.Ratio != 1 || *ideal.RatioInfinite > 1.05 {
		t.Errorf("the ideal pool's own ratios are %v and %v", *ideal.Ratio, *ideal.RatioInfinite)
	}
	if *robin.Value < 0.1 || *robin.Value > *ideal.Value || *random.Value > *ideal.Value {
		t.Errorf("capacities: ideal %v, round robin %v, random %v", *ideal.Value, *robin.Value, *random.Value)
	}
	if got, want := *robin.Ratio, *robin.Value / *ideal.Value; got < want-1e-3 || got > want+1e-3 {
		t.Errorf("the ratio of %v and %v is told as %v", *robin.Value, *ideal.Value, got)
	}
	// It is what it says: good enough there, and not at the next speed.
	for _, k := range []struct {
		speed float64
		good  bool
	}{{*robin.Value, true}, {*robin.Value * 1.006, false}} {
		r := rows(t, small+"-strategy round_robin -slo-ttft 300ms -slo-tpot 30ms -speed "+text(k.speed))[0]
		if (r.Goodput >= 0.95) != k.good && (k.good || r.Goodput > 0.96) {
			t.Errorf("at %v times the rate the goodput is %v; the capacity is told as %v", k.speed, r.Goodput, *robin.Value)
		}
	}
}

func TestWhoIsNeverGoodEnoughHasNoCapacity(t *testing.T) {
	c := rows(t, small+"-capacity -slo-ttft 1ms")[0].Capacity
	if c.Value == nil || *c.Value != 0 || c.Ratio != nil {
		t.Errorf("the capacity is %+v, want 0 and no ratio", c)
	}
}

func TestUnequalServersAndTheirBounds(t *testing.T) {
	code, stdout, stderr := run(t, "-gen gsp -requests 60 -groups 12 -engine 1*8b-h100,2*8b-a100")
	if code != 0 || !strings.Contains(stdout, "3 servers") || !strings.Contains(stdout, "take all servers to be as good as the best") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestRequestsThatOnlyFillCachesAreNotMeasured(t *testing.T) {
	line := "-gen b2b -requests 40 -tenants 4 -users 5 -context 2000 -question 200 -output 20 -rate 10 -replicas 2 "
	cold, warm := rows(t, line)[0], rows(t, line+"-warm-rate 5")[0]
	if cold.Requests != 40 || warm.Requests != 40 {
		t.Errorf("%d and %d requests were measured, want 40", cold.Requests, warm.Requests)
	}
	if warm.HitRatio < cold.HitRatio+0.05 {
		t.Errorf("the hit ratio is %v with warm caches, %v with cold ones", warm.HitRatio, cold.HitRatio)
	}
}

func TestTheProgressBarIsForTerminals(t *testing.T) {
	if _, _, stderr := run(t, small); stderr != "" {
		t.Errorf("into a file there was written %q", stderr)
	}
}

func TestThePageIsWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.html")
	if code, _, stderr := run(t, small+"-strategy work,round_robin -html "+file); code != 0 {
		t.Fatal(stderr)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"llmlb-sim -gen gsp", `"name":"round_robin"`, "</html>"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if bytes.Contains(page, []byte(`"at":[]`)) {
		t.Error("the page has no load over time")
	}
}

func TestAnInterruptEndsIt(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, err bytes.Buffer
	if code := command(ctx, strings.Fields(small+"-capacity -strategy all"), &out, &err); code != 1 || out.Len() > 0 || err.String() != "llmlb-sim: interrupted\n" {
		t.Errorf("exit code %d, it says %q", code, err.String())
	}
}
