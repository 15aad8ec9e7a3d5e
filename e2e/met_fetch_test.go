package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

const waitingPage = "vllm:num_requests_running{model_name=\"m\"} 0\nvllm:num_requests_waiting{model_name=\"m\"} 8\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.1\n"

// Uvicorn-based engines may move /metrics to /metrics/. The page behind it
// counts, and one on another host is neither asked for nor given the key.
func TestMovedMetricsPage(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer elsewhere.Close()
	// The backend serves no such path itself.
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics/" {
			raw("text/plain", waitingPage)(w, r)
			return
		}
		a.ServeHTTP(w, r)
	})
	to := "/metrics/"
	a.shows(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	b.set(load{waiting: 1})
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%supstream_auth bearer SECRET124\n}\n", a.addr(), b.addr(), fast, named(a, b)))
	a.seen()
	b.seen()
	if row := g.endpoint("a"); row.Waiting == nil || *row.Waiting != 8 || row.Reason != "" {
		t.Fatalf("row is %+v, want the 8 waiting behind the redirect", row)
	}
	for i := range 10 {
		if to := g.post(distinct(i)).endpoint(); to != "b" {
			t.Errorf("request %d went to the server with 8 waiting", i)
		}
	}
	a.shows(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", elsewhere.URL+"/metrics/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	eventually(t, "the redirect to be refused", func() bool { return g.endpoint("a").Reason == "redirect to another place" })
	if n := asked.Load(); n != 0 {
		t.Errorf("the other host was asked %d times", n)
	}
}

// Compressed pages are read, also when the header lies about it or the page
// grows beyond all bounds: then the server is used without numbers.
func TestCompressedMetricsPages(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\nscrape_interval 500ms\n%s}\n", a.addr(), b.addr(), named(a, b)))
	zip := func(r io.Reader) []byte {
		var buf bytes.Buffer
		z := gzip.NewWriter(&buf)
		if _, err := io.Copy(z, r); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	shows := func(page []byte) {
		a.shows(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(page)
		})
		a.seen()
	}
	shows(zip(strings.NewReader(waitingPage)))
	if row := g.endpoint("a"); row.Waiting == nil || *row.Waiting != 8 || row.Reason != "" {
		t.Errorf("gzip: row is %+v, want 8 waiting", row)
	}
	shows([]byte(waitingPage))
	if row := g.endpoint("a"); !strings.Contains(row.Reason, "gzip") || row.State != "up" {
		t.Errorf("gzip by name only: row is %+v, want a reason", row)
	}
	// One GiB of blank lines in a MiB.
	shows(bytes.Repeat(zip(io.LimitReader(newlines{}, 16<<20)), 64))
	eventually(t, "the bomb to be stopped at the cap", func() bool { return g.endpoint("a").Reason == "page over 8 MiB" })
	if row := g.endpoint("a"); row.State != "up" {
		t.Errorf("bomb: row is %+v, want the server up", row)
	}
	b.seen()
	if r := g.post(distinct(1)); r.status != http.StatusOK {
		t.Errorf("status %d after the bomb", r.status)
	}
}

type newlines struct{}

func (newlines) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}
