package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans are what a collector has been sent.
type spans struct {
	list chan *traces.Span
	raw  chan []byte // as it came, to look for what must not be in it
}

// collects runs a collector, and has Caddy's tracing send to it.
func collects(t *testing.T) *spans {
	t.Helper()
	s := &spans{list: make(chan *traces.Span, 100), raw: make(chan []byte, 100)}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
				body, err = io.ReadAll(z)
			}
		}
		var export collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &export) != nil {
			t.Errorf("the collector got what is no trace: %v", err)
			return
		}
		s.raw <- body
		for _, resource := range export.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					s.list <- span
				}
			}
		}
	}))
	t.Cleanup(srv.Close)
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": srv.URL + "/v1/traces", "OTEL_BSP_SCHEDULE_DELAY": "20",
	} {
		t.Setenv(name, value)
	}
	return s
}

// next returns the attributes of the next span, as text.
func (s *spans) next(t *testing.T) map[string]string {
	t.Helper()
	span := arrives(t, "a span", s.list)
	list := map[string]string{"": span.GetName()}
	for _, kv := range span.GetAttributes() {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			list[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			list[kv.GetKey()] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_DoubleValue:
			list[kv.GetKey()] = "some"
		}
	}
	return list
}

// Whoever traces sees on Caddy's own span which model was asked, what it took, where
// it was computed and why there, of a refusal its code; and nothing of the prompt.
func TestTracesTellOfTheRequest(t *testing.T) {
	collected := collects(t)
	a := lister(t, raw("application/json", `{"object":"list","data":[{"id":"m","object":"model"}]}`))
	g := start(t, fmt.Sprintf("tracing {\nspan llm\n}\nllm_proxy %s {\n%s%stenant {header.X-Tenant}\ntenant_limit weight 2 acme\nendpoint %s {\nname a\n}\n}\n", a.addr(), fast, patient, a.addr()))
	eventually(t, "the server's models to be known", func() bool { return len(g.endpoint("a").Models) == 1 })
	a.seen()
	told := `{"choices":[{"message":{"content":"ANSWER-XYZ"},"finish_reason":"stop"}],"usage":{"prompt_tokens":40,"completion_tokens":6,"prompt_tokens_details":{"cached_tokens":32}}}`
	for _, tc := range []struct {
		name, path, body string
		answer           part
		status           int
		want             map[string]string
		absent           []string
	}{
		{
			"a whole answer", chatPath, chat(false, "", "PROMPT-XYZ"),
			func(w http.ResponseWriter, _ *http.Request, _ []byte) { raw("application/json", told)(w, nil) }, 200,
			map[string]string{
				"": "llm", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.provider.name": "vllm",
				"gen_ai.usage.input_tokens": "40", "gen_ai.usage.cache_read.input_tokens": "32", "gen_ai.usage.output_tokens": "6",
				"llmlb.pool": "default", "llmlb.endpoint": "a", "llmlb.decision": "only", "llmlb.attempts": "1", "llmlb.outcome": "served",
				"llmlb.tenant": "acme", "llmlb.queue_wait_ms": "some", "http.response.status_code": "200",
			},
			[]string{"llmlb.error", "error.type", "llmlb.ttft_ms"},
		},
		{
			"a stream", chatPath, chat(true, "", "PROMPT-XYZ"), answer, 200,
			map[string]string{"llmlb.endpoint": "a", "llmlb.outcome": "served", "llmlb.ttft_ms": "some"},
			[]string{"error.type"},
		},
		{
			"a refusal", chatPath, `{"model":"nobody's","messages":[{"role":"user","content":"PROMPT-XYZ"}]}`, answer, 404,
			map[string]string{"gen_ai.request.model": "nobody's", "llmlb.outcome": "refused", "llmlb.error": "model_not_found", "error.type": "model_not_found", "llmlb.attempts": "0"},
			[]string{"llmlb.endpoint", "llmlb.decision", "gen_ai.usage.input_tokens"},
		},
		{
			"a failure", chatPath, chat(false, "", "PROMPT-XYZ"),
			func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusInternalServerError) }, 500,
			map[string]string{"llmlb.endpoint": "a", "llmlb.outcome": "engine_error", "error.type": "engine_error"},
			nil,
		},
		{
			"a model's name of another kind", chatPath, fmt.Sprintf(`{"model":"m\u0000\u001b[31m\u202e%s","messages":[{"role":"user","content":"PROMPT-XYZ"}]}`, strings.Repeat("A", 25_000)), answer, 200,
			map[string]string{"gen_ai.request.model": "m[31m" + strings.Repeat("A", 256-len("m\x00\x1b[31m\u202e"))},
			nil,
		},
		{
			"an embedding", "/v1/embeddings", `{"model":"m","input":"PROMPT-XYZ"}`,
			func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				raw("application/json", `{"data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":3}}`)(w, nil)
			}, 200,
			map[string]string{"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": "3", "llmlb.outcome": "served"},
			[]string{"gen_ai.usage.output_tokens"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a.answers(tc.answer)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Tenant", "acme")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if r := read(t, res); r.status != tc.status {
				t.Fatalf("status %d: %s", r.status, r.body)
			}
			got := collected.next(t)
			for name, want := range tc.want {
				if got[name] != want {
					t.Errorf("%s is %q, want %q", name, got[name], want)
				}
			}
			for _, name := range tc.absent {
				if v, there := got[name]; there {
					t.Errorf("%s is %q, want none", name, v)
				}
			}
			sent := arrives(t, "what the collector got", collected.raw)
			for _, secret := range []string{"PROMPT-XYZ", "ANSWER-XYZ", a.addr()} {
				if bytes.Contains(sent, []byte(secret)) {
					t.Errorf("the span has %q in it", secret)
				}
			}
		})
	}
}
