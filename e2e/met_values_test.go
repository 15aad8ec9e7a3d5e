package e2e

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// metric returns the value of one of Caddy's own metrics for the endpoint, or
// -1 when there is none.
func (g *gateway) metric(name, endpoint string) float64 {
	g.t.Helper()
	res := g.fromAdmin("/metrics")
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, name+"{") || !strings.Contains(line, fmt.Sprintf("endpoint=%q", endpoint)) {
			continue
		}
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			g.t.Fatalf("%q: %v", line, err)
		}
		return v
	}
	return -1
}

// A gauge that says what cannot be (percent in place of a share, a negative or
// an infinite number) makes its server neither the best nor the worst: the value
// is unknown, the rest of the page counts, and the operator reads why.
func TestGaugeOutOfRangeIsUnknown(t *testing.T) {
	g, a, b := pair(t, "")
	b.set(load{kv: 0.3})
	for _, value := range []string{"95", "-1", "+Inf", "1e309"} {
		t.Run(value, func(t *testing.T) {
			a.shows(raw("text/plain", "vllm:num_requests_running{model_name=\"m\"} 0\nvllm:num_requests_waiting{model_name=\"m\"} 0\n"+
				"vllm:kv_cache_usage_perc{model_name=\"m\"} "+value+"\n"))
			a.seen()
			b.seen()
			counted := func() float64 {
				return g.counter("caddy_llmlb_scrape_errors_total", "endpoint", "a", "reason", "value")
			}
			errors := counted()
			a.seen()
			row := g.endpoint("a")
			if row.KVUsage != nil || row.Running == nil || row.Waiting == nil || row.Blind || row.State != "up" {
				t.Errorf("row is %+v, want up and everything known but the KV usage", row)
			}
			if row.Reason != "value out of range: vllm:kv_cache_usage_perc" {
				t.Errorf("reason %q, want it to name the gauge", row.Reason)
			}
			if now := counted(); now <= errors {
				t.Errorf("%v scrape errors after %v: the value is not counted as one", now, errors)
			}
			together(10, a, b)
			if served := burst(g, 10, func(i int) string { return distinct(i + len(value)) }); served["a"] == 0 || served["b"] == 0 {
				t.Errorf("split %v: all to one of two idle servers", served)
			}
		})
	}
	a.shows(nil)
	a.seen()
	if row := g.endpoint("a"); row.Reason != "" || row.KVUsage == nil {
		t.Errorf("row is %+v after the gauge is right again", row)
	}
}

// One page with every oddity that metrics text allows, and some that it does
// not, around the one gauge that matters.
func TestOddMetricsTextIsRead(t *testing.T) {
	g, a, _ := pair(t, "")
	page := strings.Join([]string{
		"# HELP vllm:num_requests_waiting a", "# HELP vllm:num_requests_waiting b", "# TYPE vllm:num_requests_waiting stateset",
		"other_total 3 1700000000000", "\tother{a=\"b\"}\t1\t", "http_requests_total{code=\"200\"} 5 # {trace_id=\"x\"} 1",
		`vllm:num_requests_running{model_name="a\"b\n}c,d\\",engine="0"} 1e0 1700000000000`,
		`vllm:num_requests_waiting{model_name="m",note="\"},{\n",} 3e0 1700000000000 # {trace_id="x"} 1`,
		"vllm:num_requests_waiting_created 1.77e+09", "vllm:kv_cache_usage_perc\t{engine=\"0\"}\t0.25", "{}{}", "# EOF", "",
	}, "\r\n")
	a.shows(raw("text/plain; version=1.0.0; charset=utf-8", page))
	a.seen()
	row := g.endpoint("a")
	if row.Waiting == nil || *row.Waiting != 3 || row.Running == nil || *row.Running != 1 || row.KVUsage == nil || *row.KVUsage != 0.25 || row.Reason != "" {
		t.Errorf("row is %+v, want 1 running, 3 waiting, 25 %%", row)
	}
}
