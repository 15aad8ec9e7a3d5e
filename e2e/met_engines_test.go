package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// engineOf puts an engine with other pages in front of a backend, which counts
// and answers everything else.
func engineOf(t *testing.T, pages map[string]string) *backend {
	t.Helper()
	b := newBackendUnstarted(t)
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		switch {
		case ok:
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, page)
		case r.URL.Path == "/metrics":
			http.NotFound(w, r)
		default:
			b.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// SGLang started without --enable-metrics still shows its load, on the other
// page, and the new work goes where less waits.
func TestSGLangWithoutMetricsIsRead(t *testing.T) {
	for _, engine := range []string{"auto", "sglang"} {
		t.Run(engine, func(t *testing.T) {
			const rank = `{"dp_rank":%d,"num_running_reqs":%d,"num_waiting_reqs":%d,"num_waiting_uncached_tokens":%d,"token_usage":0.5,"max_total_num_tokens":100000}`
			a := engineOf(t, map[string]string{"/v1/loads": fmt.Sprintf(`{"loads":[`+rank+`,`+rank+`]}`, 0, 8, 6, 30000, 1, 9, 5, 20000)})
			b := engineOf(t, map[string]string{"/v1/loads": fmt.Sprintf(`{"loads":[`+rank+`]}`, 0, 2, 0, 0)})
			g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%sengine %s\n}\n", a.addr(), b.addr(), fast, named(a, b), engine))
			for _, name := range []string{"a", "b"} {
				eventually(t, "the loads to be read", func() bool { return g.endpoint(name).Running != nil })
			}
			row := g.endpoint("a")
			if row.Engine != "sglang" || *row.Running != 17 || *row.Waiting != 11 || *row.KVUsage != 0.5 || row.Reason != "/v1/loads is read, for /metrics says 404" {
				t.Errorf("row is %+v, want sglang, 17 running, 11 waiting, 50 %%, and why", row)
			}
			for i := range 5 {
				if to := g.post(distinct(i)).endpoint(); to != "b" {
					t.Errorf("request %d went to the server with 50,000 tokens waiting", i)
				}
			}
		})
	}
}

// Ollama tells no load and is used all the same; the operator sees an Ollama,
// and nothing that looks like an error. A model that one server has in memory is
// asked of that one.
func TestOllamaIsUsedWithoutNumbers(t *testing.T) {
	for _, engine := range []string{"auto", "ollama"} {
		t.Run(engine, func(t *testing.T) {
			const list = `{"object":"list","data":[{"id":"m:latest"},{"id":"n:latest"}]}`
			has := func(model string) map[string]string {
				return map[string]string{"/v1/models": list, "/api/ps": fmt.Sprintf(`{"models":[{"name":"%s:latest","model":"%s:latest","size":5137025024,"size_vram":5137025024}]}`, model, model)}
			}
			a, b := engineOf(t, has("n")), engineOf(t, has("m"))
			g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%sengine %s\n}\n", a.addr(), b.addr(), fast, named(a, b), engine))
			for _, name := range []string{"a", "b"} {
				var row llmlb.EndpointStatus
				eventually(t, "Ollama to be seen, and no reason to be told", func() bool {
					row = g.endpoint(name)
					return row.Engine == "ollama" && len(row.Models) == 4 && row.Reason == ""
				})
				if row.State != "up" || row.Running != nil || row.KVUsage != nil {
					t.Errorf("row is %+v, want up, no numbers", row)
				}
			}
			for i := range 6 { // all ask for m
				if r := g.post(distinct(i)); r.status != http.StatusOK || r.endpoint() != "b" {
					t.Errorf("request %d: status %d from %s, want the server that has the model in memory", i, r.status, r.endpoint())
				}
			}
		})
	}
}

// A server's own list of models decides who gets a request, and follows what is
// loaded while the gateway runs.
func TestModelsAreReadFromTheServers(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	const card = `{"id":%q,"object":"model","parent":%s}`
	a.models = `{"object":"list","data":[` + fmt.Sprintf(card, "m", "null") + `]}`
	b.models = `{"object":"list","data":[` + fmt.Sprintf(card, "other", "null") + `,` + fmt.Sprintf(card, "sql", `"other"`) + `]}`
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s}\n", a.addr(), b.addr(), fast, named(a, b)))
	eventually(t, "both lists", func() bool {
		return fmt.Sprint(g.endpoint("a").Models, g.endpoint("b").Models) == "[m] [other sql]"
	})
	for i := range 10 {
		if r := g.post(distinct(i)); r.status != http.StatusOK || r.endpoint() != "a" {
			t.Errorf("request %d for m went to %s (status %d), which does not serve it", i, r.endpoint(), r.status)
		}
	}
	if a.count() != 10 || b.count() != 0 {
		t.Errorf("%d and %d requests arrived: the gateway's own questions are counted", a.count(), b.count())
	}
}

// Of two idle servers with the same adapters, the one that has the adapter in
// memory gets the request, and the other one is as good again for the base model.
func TestAdapterIsAskedWhereItIsInMemory(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	const models = `{"object":"list","data":[{"id":"base","parent":null},{"id":"m","parent":"base"},{"id":"n","parent":"base"}]}`
	a.models, b.models = models, models
	page := func(running string) func(http.ResponseWriter, *http.Request) {
		return raw("text/plain", "vllm:num_requests_running{model_name=\"base\"} 0\nvllm:num_requests_waiting{model_name=\"base\"} 0\n"+
			"vllm:lora_requests_info{max_lora=\"1\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 1.7e+09\n"+
			"vllm:lora_requests_info{max_lora=\"1\",running_lora_adapters=\""+running+"\",waiting_lora_adapters=\"\"} 1.8e+09\n")
	}
	a.shows(page("n"))
	b.shows(page("m"))
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s}\n", a.addr(), b.addr(), fast, named(a, b)))
	for _, name := range []string{"a", "b"} {
		eventually(t, "the list of models", func() bool { return len(g.endpoint(name).Models) == 3 })
	}
	for i := range 6 {
		if r := g.post(distinct(i)); r.endpoint() != "b" {
			t.Errorf("request %d for the adapter went to %s, want the server that has it in memory", i, r.endpoint())
		}
	}
	together(12, a, b)
	served := burst(g, 12, func(i int) string { return strings.Replace(distinct(i+50), `"model":"m"`, `"model":"base"`, 1) })
	if served["a"] == 0 || served["b"] == 0 {
		t.Errorf("split %v of requests for the base model, want both", served)
	}
}
