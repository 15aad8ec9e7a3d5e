package simulator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// load makes Caddy run one site with the simulator, given as JSON options.
func load(t *testing.T, address, options string) error {
	t.Helper()
	return loadServer(t, address, `"logs": null`, options)
}

// loadServer is load with settings of Caddy's server too.
func loadServer(t *testing.T, address, settings, options string) error {
	t.Helper()
	return caddy.Load(config(address, `{"disabled": true, "config": {"persist": false}}`, settings, options), true)
}

func config(address, admin, settings, options string) []byte {
	if options != "" {
		options = "," + options
	}
	return fmt.Appendf(nil, `{
		"admin": %s,
		"logging": {"logs": {"default": {"level": "PANIC"}}},
		"apps": {"http": {"grace_period": "5s", "servers": {"sim": {
			"listen": [%q],
			"automatic_https": {"disable": true},
			%s,
			"routes": [{"handle": [{"handler": "llm_simulator"%s}]}]
		}}}}
	}`, admin, address, settings, options)
}

// start is load for the whole test, and returns the base URL.
func start(t *testing.T, options string) string {
	t.Helper()
	address := freeAddress(t)
	if err := load(t, address, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })
	return "http://" + address
}

// send posts a body. A connection that was waiting to be accepted by a
// listener that a reload closes is reset, and an idle one is cut; like any
// client, it then tries again.
func send(t *testing.T, ctx context.Context, url, body string) *http.Response {
	t.Helper()
	return do(t, ctx, http.MethodPost, url, body)
}

func do(t *testing.T, ctx context.Context, method, url, body string) *http.Response {
	t.Helper()
	var resp *http.Response
	eventually(t, method+" "+url, func() bool {
		req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err = http.DefaultClient.Do(req)
		return err == nil
	})
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// ask posts a body and returns the status and the answer's bytes.
func ask(t *testing.T, url, body string) (int, []byte) {
	t.Helper()
	resp := send(t, t.Context(), url, body)
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, data
}

// chunk is a streamed or whole answer as a client reads it.
type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Model   string `json:"model"`
	Choices []struct {
		Index   int `json:"index"`
		Message *struct {
			Role, Content string
		} `json:"message"`
		Delta *struct {
			Role    string
			Content *string
		} `json:"delta"`
		Text         *string `json:"text"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
		Details          struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	at time.Time // when it was read
}

// readStream reads events up to the end marker and checks that nothing follows.
func readStream(t *testing.T, body io.Reader) []chunk {
	t.Helper()
	var chunks []chunk
	ended := false
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			continue
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || ended {
			t.Fatalf("unexpected line %q", line)
		}
		if data == "[DONE]" {
			ended = true
			continue
		}
		chunks = append(chunks, decode(t, []byte(data)))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if !ended {
		t.Fatal("the stream has no end marker")
	}
	return chunks
}

func decode(t *testing.T, data []byte) chunk {
	t.Helper()
	c := chunk{at: time.Now()}
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	return c
}

// textOf joins what the chunks say.
func textOf(chunks []chunk) string {
	var b strings.Builder
	for _, c := range chunks {
		for _, ch := range c.Choices {
			switch {
			case ch.Delta != nil && ch.Delta.Content != nil:
				b.WriteString(*ch.Delta.Content)
			case ch.Text != nil:
				b.WriteString(*ch.Text)
			}
		}
	}
	return b.String()
}

// scrape reads a metrics page with the standard parser.
func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	resp := do(t, t.Context(), http.MethodGet, url+"/metrics", "")
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return parse(t, data)
}

func parse(t *testing.T, page []byte) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		t.Fatalf("%v in\n%s", err, page)
	}
	return families
}

// value is the value of a family's only series, or of the one with a label.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, label ...string) float64 {
	t.Helper()
	f := families[name]
	if f == nil {
		t.Fatalf("no family %s", name)
	}
	for _, m := range f.Metric {
		if len(label) == 2 && labels(m)[label[0]] != label[1] {
			continue
		}
		switch f.GetType() {
		case dto.MetricType_GAUGE:
			return m.Gauge.GetValue()
		case dto.MetricType_COUNTER:
			return m.Counter.GetValue()
		}
	}
	t.Fatalf("no series %s%v", name, label)
	return 0
}

func labels(m *dto.Metric) map[string]string {
	out := make(map[string]string)
	for _, l := range m.Label {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// eventually waits until a condition holds that another process's view, such
// as a closed connection, needs a moment to reach.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come true", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
