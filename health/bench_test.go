package health

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// vLLMPage is a page of the size and make-up of a real vLLM server's: a few
// gauges and counters among histograms.
func vLLMPage(size int) []byte {
	const labels = `engine="0",model_name="org/model-70b-instruct"`
	var b bytes.Buffer
	family := func(name, kind, labels string, value any) {
		fmt.Fprintf(&b, "# HELP %s What it counts.\n# TYPE %s %s\n%s{%s} %v\n", name, name, kind, name, labels, value)
	}
	family("vllm:num_requests_running", "gauge", labels, 14.0)
	family("vllm:num_requests_waiting", "gauge", labels, 3.0)
	family("vllm:kv_cache_usage_perc", "gauge", labels, 0.61)
	family("vllm:prompt_tokens_total", "counter", labels, 8.128902e+06)
	family("vllm:prompt_tokens_cached_total", "counter", labels, 4.1e+06)
	family("vllm:generation_tokens_total", "counter", labels, 7.557572e+06)
	family("vllm:cache_config_info", "gauge", `block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="81767"`, 1.0)
	family("process_start_time_seconds", "gauge", `job="x"`, 1.79e+09)
	for i := 0; b.Len() < size; i++ {
		name := "vllm:time_to_first_token_seconds"
		if i > 0 {
			name = fmt.Sprintf("vllm:some_other_%d_seconds", i)
		}
		fmt.Fprintf(&b, "# HELP %s How long it took.\n# TYPE %s histogram\n", name, name)
		for j := range 20 {
			fmt.Fprintf(&b, "%s_bucket{%s,le=\"%g\"} %d.0\n", name, labels, 0.001*float64(int(1)<<j), 100*j)
		}
		fmt.Fprintf(&b, "%s_count{%s} 2000.0\n%s_sum{%s} 812.5\n", name, labels, name, labels)
	}
	return b.Bytes()
}

// One scrape's reading of a 16 KB page, from the body's bytes to Signals.
func BenchmarkReadPage16KB(b *testing.B) {
	body := vLLMPage(16 << 10)
	now := time.Now()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		p := &page{body: body, header: http.Header{}, scratch: scratches.Get().(*scratch)}
		s, _, _, why := readPage(now, p, dialects)
		if why != "" || s.Waiting != 3 || s.TTFTCount != 2000 {
			b.Fatalf("read %+v, %q", s, why)
		}
		p.release()
	}
}

// A whole scrape but for the network: request, body, reading.
func BenchmarkScrape16KB(b *testing.B) {
	body := string(vLLMPage(16 << 10))
	net := newServers()
	net.set("127.0.0.1:8000", serves(body))
	s := &llmlb.Settings{Upstream: func() (http.RoundTripper, string) { return discardTimes{net}, "http" }}
	b.ReportAllocs()
	for b.Loop() {
		p, why := fetch(context.Background(), s, "127.0.0.1:8000", ask{path: "/metrics", text: true}, time.Second)
		if why != "" {
			b.Fatal(why)
		}
		if _, _, _, why := readPage(time.Now(), p, dialects); why != "" {
			b.Fatal(why)
		}
		p.release()
	}
}

// discardTimes answers without keeping a record of each scrape.
type discardTimes struct{ *servers }

func (d discardTimes) RoundTrip(req *http.Request) (*http.Response, error) {
	return d.answers[req.URL.Host](req)
}

func TestBenchmarkPageIsRead(t *testing.T) {
	if body := vLLMPage(16 << 10); len(body) < 16<<10 || len(body) > 20<<10 || !strings.Contains(string(body), "_bucket") {
		t.Errorf("the page has %d bytes", len(body))
	}
}
