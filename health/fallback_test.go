package health

import (
	"net/http"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

type pages = map[string]func(*http.Request) (*http.Response, error)

const sglangPage = "sglang:num_running_reqs{model_name=\"m\"} 1\nsglang:num_queue_reqs{model_name=\"m\"} 2\n"

// asJSON answers with JSON.
func asJSON(text string) func(*http.Request) (*http.Response, error) {
	return servesAs("application/json", text)
}

// SGLang without --enable-metrics is read at /v1/loads, and the operator sees
// why; one that has metrics is read there and nothing more is asked of it.
func TestSGLangWithoutMetrics(t *testing.T) {
	for _, c := range []struct {
		what    string
		engine  string
		pages   pages
		asked   []string
		running float64
		reason  string
	}{
		{"metrics off", "sglang", pages{"/v1/loads": asJSON(loadsPage)}, []string{"/metrics", "/v1/loads", "/v1/loads"}, 20, "/v1/loads is read, for /metrics says 404"},
		{"metrics off, auto", auto, pages{"/v1/loads": asJSON(loadsPage)}, nil, 20, "/v1/loads is read, for /metrics says 404"},
		{"metrics on", "sglang", pages{"/metrics": serves(sglangPage), "/v1/loads": asJSON(loadsPage)}, []string{"/metrics", "/metrics"}, 1, ""},
		{"metrics on, auto", auto, pages{"/metrics": serves(sglangPage), "/v1/loads": asJSON(loadsPage)}, []string{"/metrics", "/metrics"}, 1, ""},
		{"neither", "sglang", pages{}, []string{"/metrics", "/v1/loads", "/metrics", "/v1/loads"}, unknown, "404"},
		{"broken", "sglang", pages{"/v1/loads": asJSON(`{"loads":[]}`)}, []string{"/metrics", "/v1/loads", "/metrics"}, unknown, string(familyNotFound)},
		{"not ready", "sglang", pages{"/v1/loads": asJSON(`{"loads":[{"num_running_reqs":0,"num_waiting_reqs":0,"max_total_num_tokens":0}]}`)}, []string{"/metrics", "/v1/loads", "/v1/loads"}, unknown, string(notReady)},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, server := newServers(), &paths{pages: c.pages}
				net.set("a:1", server.answer)
				s := settings(t, net, "a:1")
				s.Scrape.Engine = c.engine
				h := run(t, s)
				time.Sleep(8 * time.Second)
				r := row(t, h, "a:1")
				switch {
				case r.Reason != c.reason || r.State != "up":
					t.Errorf("row is %+v, want reason %q", r, c.reason)
				case c.running == unknown:
					if r.Running != nil || !r.Blind {
						t.Errorf("row is %+v, want no numbers", r)
					}
				case r.Running == nil || *r.Running != c.running || r.Engine != "sglang":
					t.Errorf("row is %+v, want %v running on sglang", r, c.running)
				}
				server.mu.Lock()
				defer server.mu.Unlock()
				if len(server.asked) < len(c.asked) || !slices.Equal(server.asked[:len(c.asked)], c.asked) {
					t.Errorf("asked for %q, want %q first", server.asked, c.asked)
				}
				if c.reason == "" && slices.Contains(server.asked, "/v1/loads") {
					t.Error("/v1/loads was asked for although there are metrics")
				}
			})
		})
	}
}

// When the server comes back with metrics turned on, they are read again.
func TestSGLangGetsItsMetricsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, server := newServers(), &paths{pages: pages{"/v1/loads": asJSON(loadsPage)}}
		net.set("a:1", server.answer)
		s := settings(t, net, "a:1")
		s.Scrape.Engine = "sglang"
		core, logs := recorded()
		c := newConfig(t, core)
		h := c.watch(t, s)
		c.start(t)
		time.Sleep(5 * time.Second)
		net.set("a:1", fails(reverseproxy.NewDialError(syscall.ECONNREFUSED)))
		time.Sleep(10 * time.Second)
		server.mu.Lock()
		server.pages["/metrics"] = serves(sglangPage)
		server.mu.Unlock()
		net.set("a:1", server.answer)
		time.Sleep(2 * time.Second)
		r := row(t, h, "a:1")
		c.end(t)
		if r.Running == nil || *r.Running != 1 || r.Reason != "" {
			t.Errorf("row is %+v, want the metrics' 1 running", r)
		}
		if n := count(lines(logs), "engine recognized"); n != 2 || count(lines(logs), "/metrics says 404") != 1 {
			t.Errorf("log is %q, want both pages named once", lines(logs))
		}
	})
}

// Ollama tells no load: it is shown as what it is, without alarm, judged by our
// own calls, and what it has in memory is known.
func TestOllamaIsJudgedByOwnCalls(t *testing.T) {
	for _, engine := range []string{auto, "ollama"} {
		t.Run(engine, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, server := newServers(), &paths{pages: pages{
					"/api/ps":  asJSON(`{"models":[{"name":"llama3.2:latest","size":1}]}`),
					modelsPath: lists("llama3.2:latest", "qwen3:8b"),
				}}
				net.set("a:1", server.answer)
				s := settings(t, net, "a:1")
				s.Scrape.Engine = engine
				core, logs := recorded()
				c := newConfig(t, core)
				h := c.watch(t, s)
				c.start(t)
				time.Sleep(10 * time.Second)
				r := row(t, h, "a:1")
				if r.Engine != "ollama" || r.Reason != "" || r.State != "up" || r.Running != nil || !r.Blind {
					t.Errorf("row is %+v, want ollama, up, no numbers, no reason", r)
				}
				for model, want := range map[string]float64{"llama3.2": 0, "llama3.2:latest": 0, "qwen3:8b": 10} {
					h.Pool().Lock()
					e := h.Settings().Members[0].Endpoint
					delay := e.LoadDelay(llmlb.ModelHash(model), time.Now())
					h.Pool().Unlock()
					if got := serving(h, model); got != "yes" || delay != want {
						t.Errorf("%s is served: %s, in %v s; want yes, in %v s", model, got, delay, want)
					}
				}
				failedBefore := row(t, h, "a:1").ScrapeAgeMillis
				if failedBefore == nil || *failedBefore > 1000 {
					t.Errorf("age of what is known: %v ms", failedBefore)
				}
				from := server.times("/metrics")
				time.Sleep(time.Minute)
				if n := server.times("/metrics"); n != from {
					t.Errorf("other places are still looked at: %d times", n-from)
				}
				c.end(t)
				if n := count(lines(logs), `"engine":"ollama"`); n != 1 {
					t.Errorf("log is %q", lines(logs))
				}
			})
		})
	}
}

// JSON is no metrics page where an operator's own path leads to it, unless the
// engine is named: what TensorRT-LLM keeps must not be drained for nothing.
func TestJSONIsReadWhereItIsExpected(t *testing.T) {
	for _, c := range []struct {
		engine, metrics string
		json, text      bool
	}{
		{auto, "", false, true}, // the first place, /metrics
		{auto, "/metrics", false, true},
		{auto, "/engine/v1/loads", true, false},
		{auto, "/v1/loads?dp_rank=0", true, false},
		{auto, "/api/ps", true, false},
		{"sglang", "", false, true},
		{"sglang", "/x/v1/loads", true, false},
		{"sglang", "/load.json", true, true},
		{"ollama", "", true, false},
		{"ollama", "/ps", true, false},
		{"vllm", "/v1/loads", false, true},
	} {
		f := finder{}
		_, what := f.next(&llmlb.Scrape{Engine: c.engine, Metrics: c.metrics, Interval: time.Second})
		if what.json != c.json || what.text != c.text {
			t.Errorf("engine %s, metrics %q: asks for JSON %t, text %t; want %t, %t", c.engine, c.metrics, what.json, what.text, c.json, c.text)
		}
	}
}

// A value that cannot be is shown and logged once, and counts as an error.
func TestDoubtIsShownAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(1, 2, 95)))
		core, logs := recorded()
		c := newConfig(t, core)
		h := c.watch(t, settings(t, net, "a:1"))
		c.start(t)
		time.Sleep(5 * time.Minute)
		r := row(t, h, "a:1")
		tried, failed := h.Settings().Members[0].Endpoint.Scrapes()
		if r.Reason != "value out of range: vllm:kv_cache_usage_perc" || *r.Running != 1 || r.KVUsage != nil || r.Blind || tried != failed {
			t.Errorf("row is %+v, %d of %d scrapes failed", r, failed, tried)
		}
		net.set("a:1", serves(load(1, 2, 0.5)))
		time.Sleep(2 * time.Second)
		if r := row(t, h, "a:1"); r.Reason != "" || *r.KVUsage != 0.5 {
			t.Errorf("row is %+v after it was put right", r)
		}
		c.end(t)
		if n := count(lines(logs), "metric not believed"); n != 1 || len(lines(logs)) != 2 {
			t.Errorf("log is %q, want one line about it", lines(logs))
		}
	})
}
