package e2e

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// A metrics page that cannot be used is a matter for one line in the log, however
// often it is asked for; what the page says is never part of it.
func TestBadMetricsPagesAreToldOnce(t *testing.T) {
	const words = "Bad gateway of somebody else"
	for name, tc := range map[string]struct {
		page   func(http.ResponseWriter, *http.Request)
		reason string
	}{
		"an empty page":                  {raw("text/plain; version=0.0.4", ""), "family not found"},
		"no number of an engine's":       {raw("text/plain; version=0.0.4", "process_cpu_seconds_total 1\n"), "family not found"},
		"another's error page":           {raw("text/html", "<html><h1>"+strings.Repeat(words+" ", 100)+"</h1></html>"), "not a metrics page (text/html)"},
		"another's error page, unmarked": {raw("text/plain", "<html><h1>"+strings.Repeat(words+" ", 100)+"</h1></html>"), "family not found"},
		"its error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, words)
		}, "502"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newBackend(t), newBackend(t)
			a.shows(tc.page)
			g := start(t, "respond ok\n")
			// Asked to find the engine out, the gateway would ask less often from now on.
			d := g.keeps(t, fmt.Sprintf("llm_proxy %s %s {\nengine vllm\n%s%s}\n", a.addr(), b.addr(), fast, named(a, b)), nil)
			failed := map[string]any{"endpoint": "a"}
			eventually(t, "the failure to be told", func() bool { return len(unhurried(d.lines(t, "scrape failed", failed))) > 0 })
			before := g.counter("caddy_llmlb_scrape_errors_total", "endpoint", "a")
			for range 5 {
				a.seen()
			}
			if n := g.counter("caddy_llmlb_scrape_errors_total", "endpoint", "a") - before; n < 5 {
				t.Errorf("%v of ten scrapes count as failed", n)
			}
			told := unhurried(d.lines(t, "scrape failed", failed))
			if len(told) != 1 || told[0]["level"] != "warn" || !strings.HasPrefix(fmt.Sprint(told[0]["reason"]), tc.reason) {
				t.Errorf("told %d times: %v; want one warning, %q", len(told), told, tc.reason)
			}
			eventually(t, "the reason to be shown", func() bool { return strings.HasPrefix(g.endpoint("a").Reason, tc.reason) })
			if row := g.endpoint("a"); row.State != "up" || row.Running != nil {
				t.Errorf("row is %+v, want up and without numbers", row)
			}
			text, err := os.ReadFile(string(d))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), words) || strings.Contains(string(text), "<html") {
				t.Error("what the page says is in the log")
			}
		})
	}
}

// unhurried leaves out scrapes that a slow machine has not ended in time.
func unhurried(lines []map[string]any) []map[string]any {
	return slices.DeleteFunc(lines, func(line map[string]any) bool {
		return strings.HasPrefix(fmt.Sprint(line["reason"]), "timeout")
	})
}

// The engine of one server has the KV-cache gauge under its old name, that of the
// other one under the new. Both are read: the work goes where there is memory, until
// the first server shows under the new name that it has some too. Nothing is logged
// for it, however often the pages are read.
func TestARenamedGaugeIsReadAsBefore(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	const both = "vllm:num_requests_running{model_name=\"m\"} 0\nvllm:num_requests_waiting{model_name=\"m\"} 0\n"
	const before = "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.95\n"
	a.shows(raw("text/plain", both+before))
	b.shows(raw("text/plain", both+"vllm:kv_cache_usage_perc{model_name=\"m\"} 0.10\n"))
	g := start(t, "respond ok\n")
	d := g.keeps(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s}\n", a.addr(), b.addr(), fast, named(a, b)), nil)
	for range 3 {
		a.seen()
		b.seen()
	}
	usage := func(name string) float64 {
		if kv := g.endpoint(name).KVUsage; kv != nil {
			return *kv
		}
		return -1
	}
	if usage("a") != 0.95 || usage("b") != 0.10 {
		t.Errorf("kv usage is shown as %v and %v, want 0.95 and 0.1", usage("a"), usage("b"))
	}
	served := func(first int) map[string]int {
		by := map[string]int{}
		for i := range 20 {
			r, err := g.ask(http.DefaultClient, distinct(first+i))
			if err != nil || r.status != http.StatusOK {
				t.Errorf("status %d, %v: %s", r.status, err, r.body)
			}
			by[r.endpoint()]++
		}
		return by
	}
	if by := served(0); by["b"] < 18 {
		t.Errorf("of 20 one at a time, %v: want at least 18 at the server with memory", by)
	}
	a.shows(raw("text/plain", both+before+"vllm:kv_cache_usage_perc{model_name=\"m\"} 0.05\n"))
	a.seen()
	if usage("a") != 0.05 {
		t.Errorf("kv usage of a is shown as %v, want the new name's 0.05", usage("a"))
	}
	if by := served(100); by["a"] < 4 || by["b"] < 4 {
		t.Errorf("of 20 when both have memory, %v: want some at each", by)
	}
	for _, words := range []string{"scrape failed", "not believed"} {
		if told := unhurried(d.lines(t, words, nil)); len(told) > 0 {
			t.Errorf("told %v, want nothing of pages that are read", told)
		}
	}
	if told := d.lines(t, "engine recognized", map[string]any{"endpoint": "a"}); len(told) > 1 {
		t.Errorf("the engine is recognized %d times", len(told))
	}
}
