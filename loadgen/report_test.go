package loadgen

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", file, got)
	}
}

// mixed is a run in which everything happens.
func mixed(t *testing.T) *Report {
	t.Helper()
	r, _ := carry(t, Scenario{
		Model: "m", Rate: Rate{To: 8}, Ramp: Duration(2 * time.Second), Duration: Duration(10 * time.Second), MaxOpen: 20, Tenants: 2, Seed: 2,
		Headers: []string{"X-Key: secret"},
		Classes: []Class{{Name: "edit", Share: 0.6, Output: Size{fixed, 8, 0}}, {Name: "<summary>", Share: 0.4, SLOTTFT: Duration(10 * time.Second)}},
	}, func(a *asked, w *reply) {
		w.header.Set("X-LLM-Endpoint", fmt.Sprintf("ep-%d", a.n%2))
		switch a.n % 10 {
		case 3:
			w.error(429, `{"error":{"message":"queue is full, see \"queue\" \u001b[31m<b>"}}`)
		case 7:
			w.token("x")
			w.cut = errReset{}
		default:
			w.stream(time.Duration(100+40*a.n)*time.Millisecond, 25*time.Millisecond, a.body.Tokens)
		}
	})
	return r
}

func TestReportAsTable(t *testing.T) { golden(t, "report.txt", text(mixed(t))) }

// Scripts rely on the names.
func TestReportAsJSON(t *testing.T) {
	var b bytes.Buffer
	if err := mixed(t).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "secret") {
		t.Error("the report tells a header's value")
	}
	golden(t, "report.json", b.String())
}

// The page is whole, has the numbers without its script, and asks nobody for
// anything.
func TestReportAsPage(t *testing.T) {
	r := mixed(t)
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	text, script := parsed(t, b.String())
	for _, want := range []string{
		percent(r.Total.Goodput), ms(r.Total.TTFT.P99), ms(r.Total.E2E.Max), "<summary>", "tenant-2", "ep-1",
		`queue is full, see "queue" ?[31m<b>`, "open loop, 8/s", "truncated",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if found := regexp.MustCompile(`(?i)(src|href)=|url\(|@import|fetch\(|XMLHttp`).FindString(b.String()); found != "" {
		t.Errorf("the page asks for something: %q", found)
	}
	var p plots
	raw, _, ok := strings.Cut(strings.TrimPrefix(script, "const data = "), ";\n")
	if !ok {
		raw = strings.TrimSuffix(raw, ";")
	}
	if err := json.Unmarshal([]byte(raw), &p); err != nil {
		t.Fatalf("the script's data: %v", err)
	}
	if len(p.Dots) != r.Total.Offered || len(p.Line) == 0 || len(p.Gaps) == 0 || p.Classes[1] != "<summary>" {
		t.Errorf("%d dots, %d moments, %d gaps, classes %q", len(p.Dots), len(p.Line), len(p.Gaps), p.Classes)
	}
}

// parsed reads a page and returns its text and its first script. Every element
// must be closed in its place.
func parsed(t *testing.T, page string) (text, script string) {
	t.Helper()
	void := []string{"meta", "br", "link", "input", "img", "hr"}
	var open []string
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) || len(open) > 0 {
				t.Fatalf("the page ends with %v and %q open", z.Err(), open)
			}
			return b.String(), script
		case html.StartTagToken:
			if name := z.Token().Data; !slices.Contains(void, name) {
				open = append(open, name)
			}
		case html.EndTagToken:
			name := z.Token().Data
			if len(open) == 0 || open[len(open)-1] != name {
				t.Fatalf("</%s> closes %q", name, open)
			}
			open = open[:len(open)-1]
		case html.TextToken:
			switch token := z.Token(); {
			case len(open) > 0 && open[len(open)-1] == "script":
				if script == "" {
					script = token.Data
				}
			case len(open) > 0 && open[len(open)-1] == "style":
			default:
				b.WriteString(token.Data + " ")
			}
		}
	}
}

// However long it ran, the report is small, and true.
func TestManyRequests(t *testing.T) {
	s := completed(t, Scenario{Rate: Rate{To: 1000}, Tenants: 1000, Classes: []Class{{Name: "a"}, {Name: "b"}}})
	rec := newRecorder(s, time.Now())
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 100_000 {
		x := sample{
			class: i % 2, tenant: fmt.Sprintf("tenant-%d", i%1000), endpoint: fmt.Sprintf("ep-%d", i), outcome: OK,
			at: time.Duration(i) * time.Millisecond, ttft: time.Duration(rng.IntN(1000)+1) * time.Millisecond, output: 3,
			gaps: []time.Duration{time.Duration(rng.IntN(50)) * time.Millisecond, 0},
		}
		x.e2e = 2 * x.ttft
		if i%100 == 0 {
			x.outcome, x.status, x.message = Failed, 500, fmt.Sprintf("request %d failed", i)
		}
		rec.begin()
		rec.end(&x)
		if i%10 == 0 {
			rec.line.add(moment{at: x.at, started: i, ended: i})
		}
	}
	rec.elapsed, rec.offering = 100*time.Second, 100*time.Second
	r := rec.report("http://127.0.0.1")
	var page, raw bytes.Buffer
	if err := errors.Join(r.WriteHTML(&page), r.WriteJSON(&raw)); err != nil {
		t.Fatal(err)
	}
	if page.Len() > 400<<10 || raw.Len() > 2<<20 || strings.Count(text(r), "\n") > 120 {
		t.Errorf("the page has %d bytes, the JSON %d, the table %d lines", page.Len(), raw.Len(), strings.Count(text(r), "\n"))
	}
	if len(rec.points) != maxPoints || len(rec.line.moments) > maxMoments || len(rec.endpoints) > maxEndpoints+1 || len(rec.faults) > maxFaults+1 {
		t.Errorf("kept %d points, %d moments, %d endpoints, %d faults", len(rec.points), len(rec.line.moments), len(rec.endpoints), len(rec.faults))
	}
	if r.Total.Offered != 100_000 || r.Total.Outcomes[Failed] != 1000 {
		t.Errorf("%+v", r.Total)
	}
	within(t, "ttft p50", r.Total.TTFT.P50, 500*time.Millisecond)
	within(t, "ttft p99", r.Total.TTFT.P99, 990*time.Millisecond)
	// The sample is of all of the run.
	late := 0
	for _, p := range rec.points {
		if p.at > 50*time.Second {
			late++
		}
	}
	if late < 9500 || late > 10500 {
		t.Errorf("%d of %d points are of the second half", late, len(rec.points))
	}
	begun := r.Timeline[len(r.Timeline)-1]
	if begun.At < 99 {
		t.Errorf("the last moment is %+v", begun)
	}
}

// A run in which nothing came back has a report, too.
func TestReportOfNothing(t *testing.T) {
	s := completed(t, Scenario{Rate: Rate{To: 1}})
	r := newRecorder(s, time.Now()).report("http://127.0.0.1")
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	parsed(t, page.String())
	if out := text(r); !strings.Contains(out, "goodput – of the offered") {
		t.Errorf("printed:\n%s", out)
	}
}
