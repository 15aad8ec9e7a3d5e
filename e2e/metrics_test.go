package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// burst sends n different prompts at once and returns how many each endpoint
// served.
func burst(g *gateway, n int, body func(i int) string) map[string]int {
	g.t.Helper()
	var mu sync.Mutex
	served := map[string]int{}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r := g.post(body(i))
			mu.Lock()
			defer mu.Unlock()
			if r.status != http.StatusOK {
				g.t.Errorf("status %d: %s", r.status, r.body)
			}
			served[r.endpoint()]++
		})
	}
	wg.Wait()
	return served
}

// together makes every server hold its answers until n requests are open on all
// of them: a burst that really is one.
func together(n int, backends ...*backend) {
	var mu sync.Mutex
	arrived, all := 0, make(chan struct{})
	for _, b := range backends {
		b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
			mu.Lock()
			if arrived++; arrived == n {
				close(all)
			}
			mu.Unlock()
			select {
			case <-all:
			case <-r.Context().Done():
			}
			answer(w, r, body)
		})
	}
}

func distinct(i int) string { return chat(false, "", prose(string(rune('A'+i%26))+prose("x", i), 600)) }

func raw(contentType, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, body)
	}
}

// An engine renamed its KV-cache gauge; a gateway that reads a missing series
// as zero sends everything to the full server.
func TestOldAndNewNamesOfTheKVGauge(t *testing.T) {
	g, a, b := pair(t, "")
	both := "vllm:num_requests_running{model_name=\"m\"} 0\nvllm:num_requests_waiting{model_name=\"m\"} 0\n"
	a.shows(raw("text/plain", both+"vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.97\n"))
	b.shows(raw("text/plain", both+"vllm:kv_cache_usage_perc{model_name=\"m\"} 0.10\n"))
	a.seen()
	b.seen()
	if kv := g.endpoint("a").KVUsage; kv == nil || *kv != 0.97 {
		t.Errorf("kv usage of a is %v, want 0.97", kv)
	}
	toB := 0
	for i := range 20 {
		if g.post(distinct(i)).endpoint() == "b" {
			toB++
		}
	}
	if toB < 18 {
		t.Errorf("%d of 20 went to the server with free memory, want at least 18", toB)
	}
	a.shows(raw("text/plain", both+"vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.97\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.05\n"))
	a.seen()
	if kv := g.endpoint("a").KVUsage; kv == nil || *kv != 0.05 {
		t.Errorf("kv usage of a is %v, want the new name's 0.05", kv)
	}
}

// A page without load is no telemetry. It must not look like an idle server.
func TestMissingMetricsAreNotZero(t *testing.T) {
	for name, page := range map[string]string{
		"empty page":       "",
		"no engine series": "process_cpu_seconds_total 1\n",
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newBackend(t), newBackend(t)
			a.shows(raw("text/plain", page)) // from the first scrape on
			b.set(load{running: 1})
			g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s}\n", a.addr(), b.addr(), fast, named(a, b)))
			a.seen()
			b.seen()
			together(20, a, b)
			served := burst(g, 20, distinct)
			if served["a"] < 5 || served["a"] > 15 {
				t.Errorf("split %v, want between 5 and 15 each", served)
			}
			// A machine with much to do may be late with one page, or with another.
			eventually(t, "the reason to be told", func() bool { return strings.Contains(g.endpoint("a").Reason, "family not found") })
			if row := g.endpoint("a"); row.Running != nil || row.State != "up" {
				t.Errorf("running %v reason %q state %q", row.Running, row.Reason, row.State)
			}
		})
	}
}

func TestMetricsPageWithoutFinalNewline(t *testing.T) {
	g, a, _ := pair(t, "")
	a.shows(raw("text/plain", "vllm:num_requests_running{model_name=\"m\"} 2\nvllm:num_requests_waiting{model_name=\"m\"} 6"))
	a.seen()
	row := g.endpoint("a")
	if row.Waiting == nil || *row.Waiting != 6 || row.Running == nil || *row.Running != 2 {
		t.Errorf("waiting %v running %v, want 6 and 2", row.Waiting, row.Running)
	}
}

// A proxy in between answers for the metrics page with its own error page.
func TestHTMLInPlaceOfMetrics(t *testing.T) {
	g, a, b := pair(t, "")
	a.shows(raw("text/html", "<html><h1>Bad gateway</h1></html>"))
	a.seen()
	b.seen()
	row := g.endpoint("a")
	if row.State != "up" || row.Running != nil || row.Reason == "" || strings.Contains(row.Reason, "<") || len(row.Reason) > 200 {
		t.Errorf("state %q running %v reason %q", row.State, row.Running, row.Reason)
	}
	together(10, a, b)
	if served := burst(g, 10, distinct); served["a"] == 0 {
		t.Errorf("split %v: the server left the rotation for its metrics page", served)
	}
}

// Servers that accept a scrape and never answer do not delay the others'.
func TestDeadMetricsPagesStarveNobody(t *testing.T) {
	g, a, b := pair(t, "")
	hang := make(chan struct{})
	defer close(hang)
	a.shows(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	a.seen()
	started := time.Now()
	for range 5 {
		b.seen()
	}
	t.Logf("ten scrapes of the healthy server took %v", time.Since(started))
	row := g.endpoint("a")
	if row.State != "up" || !strings.Contains(row.Reason, "timeout") {
		t.Errorf("state %q reason %q, want up and a timeout", row.State, row.Reason)
	}
	if g.post(distinct(1)).status != http.StatusOK {
		t.Error("no answer while a metrics page hangs")
	}
}
