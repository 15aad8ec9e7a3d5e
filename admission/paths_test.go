package admission

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// control are the engines' paths by which one client could harm all others.
var control = strings.Fields(`
	/metrics /prometheus/metrics /v1/metrics /slots /slots/0 /props /load /v1/loads /get_load
	/sleep /wake_up /is_sleeping /server_info /get_server_info /model_info /get_model_info /info
	/flush_cache /abort_request /reset_prefix_cache /reset_mm_cache /pause_generation
	/v1/load_lora_adapter /v1/unload_lora_adapter /load_lora_adapter /lora-adapters
	/update_weights_from_disk /update_weights_from_tensor /init_weights_update_group
	/start_profile /stop_profile /collective_rpc /kv_cache_events /health_generate
	/api/delete /api/pull /api/push /api/create /api/copy /api/ps /api/tags /api/version /api/blobs
	/models/load /models/unload /admin/config /debug/pprof /docs /openapi.json /live /readyz
	/v1/files /v1/batches /v1/models/../sleep /v1/responses/resp_1/cancel`)

// spellings are ways to write a path so that a check and an engine might read
// different things.
func spellings(path string) []string {
	first, rest := path[1:2], path[2:]
	return []string{
		path, path + "/", "/" + path, "//" + path[1:], "/." + path, "/x/.." + path, "/v1/../" + path[1:],
		"/v1/models/.." + path, "/v1/models/../.." + path, "/v1/models/x/../../.." + path,
		"/v1/models/%2e%2e/%2e%2e" + path, "/v1/models/..%2f.." + path, "/v1/models/..%5c.." + path,
		"/v1/models/%252e%252e" + path, `/v1/models/..\..` + path,
		"/v1/chat/completions/../../.." + path, "/v1/chat/completions" + path, "/v1/chat/completions%2f..%2f.." + path,
		"/health/.." + path, "/health%2f.." + path, "/health;" + path, "/health%3b/.." + path, "/health/;/.." + path,
		fmt.Sprintf("/%%%02x%s", first[0], rest), fmt.Sprintf("/%%%02X%s", first[0], rest), "/%2f" + path[1:], "%2f" + path[1:],
		"/%2e" + path, "/%2e%2e" + path, "/x/%2e%2e" + path, `\` + path[1:], `/\` + path[1:], "/%5c" + path[1:],
		path + ";x=1", path + "%00", path + "%20", path + "%3f", path + "%23", path + "..;/", "/" + strings.ToUpper(path[1:]) + "/.",
		"/health%0d%0a" + path, "/./" + path[1:], "/;" + path, "/..;" + path,
	}
}

// No spelling of an engine's control path is served, for any method.
func TestControlPathsAreNotServed(t *testing.T) {
	for _, path := range control {
		for _, target := range spellings(path) {
			for _, form := range []string{target, "http://10.0.0.1" + target} {
				u, err := url.ParseRequestURI(form)
				if err != nil {
					continue // net/http answers 400 by itself
				}
				for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "PUT", "OPTIONS", "CONNECT", "get", "X"} {
					k, _ := of(&http.Request{Method: method, URL: u}, nil)
					if k != closed {
						t.Errorf("%s %s is served (%v)", method, form, k)
					}
				}
			}
		}
	}
}

// The same through Caddy, byte by byte on a socket: the engine hears of none.
func TestControlPathsNeverReachAnEngine(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}})
	for _, path := range []string{"/flush_cache", "/sleep", "/v1/load_lora_adapter", "/slots", "/metrics"} {
		for _, target := range append(spellings(path), "http://"+e.address()+path, "*") {
			for _, method := range []string{"GET", "POST"} {
				resp, body := g.raw(method + " " + target + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
				if resp.StatusCode == http.StatusBadRequest && resp.Header.Get("Content-Type") != "application/json" {
					continue // not HTTP, says net/http
				}
				wantError(t, resp, body, http.StatusNotFound, "path_not_served")
			}
		}
	}
	if seen, _ := e.requests(); len(seen) > 0 {
		t.Errorf("the engine got %d requests, the first for %s", len(seen), seen[0].RequestURI)
	}
}

// What people use is served, in its one spelling and for its methods.
func TestServedPaths(t *testing.T) {
	for _, test := range []struct {
		method, target string
		more           []string
		want           kind
	}{
		{"POST", "/v1/chat/completions", nil, generates},
		{"POST", "/v1/chat/completions?api-version=1", nil, generates},
		{"POST", "http://llm.example.com/v1/completions", nil, generates},
		{"POST", "/v1/completions", nil, generates},
		{"POST", "/v1/embeddings", nil, generates},
		{"POST", "/v1/responses", nil, generates},
		{"POST", "/v1/messages", nil, generates},
		{"POST", "/v1/messages/count_tokens", nil, passes},
		{"POST", "/api/chat", nil, generates},
		{"POST", "/api/generate", nil, generates},
		{"POST", "/generate", nil, generates},
		{"POST", "/generate_stream", nil, generates},
		{"POST", "/", nil, generates},
		{"POST", "/completion", nil, generates},
		{"POST", "/v1/rerank", nil, generates},
		{"POST", "/v1/audio/transcriptions", nil, generates},
		{"POST", "/tokenize", nil, passes},
		{"POST", "/detokenize", nil, passes},
		{"GET", "/v1/models", nil, passes},
		{"HEAD", "/v1/models", nil, passes},
		{"GET", "/v1/models/llama-3.1:8b", nil, passes},
		{"GET", "/v1/models/meta-llama/Llama-3.1-8B", nil, passes},
		{"GET", "/v1/models/meta-llama%2FLlama-3.1-8B", nil, passes},
		{"GET", "/health", nil, passes},
		{"GET", "/ping", nil, passes},
		{"GET", "/version", nil, passes},
		{"HEAD", "/", nil, passes},
		{"OPTIONS", "/v1/chat/completions", nil, passes},
		{"OPTIONS", "/v1/models/x", nil, passes},

		{"GET", "/v1/chat/completions", nil, wrongMethod},
		{"DELETE", "/v1/models/x", nil, wrongMethod},
		{"POST", "/v1/models", nil, wrongMethod},
		{"GET", "/", nil, wrongMethod},
		{"post", "/v1/completions", nil, wrongMethod},

		{"POST", "/V1/chat/completions", nil, closed},
		{"POST", "/v1/chat/completions/", nil, closed},
		{"POST", "//v1/chat/completions", nil, closed},
		{"POST", "/v1//chat/completions", nil, closed},
		{"POST", "/v1/chat%2Fcompletions", nil, closed},
		{"POST", "/v1/ch%61t/completions", nil, closed},
		{"GET", "/v1/models/", nil, closed},
		{"GET", "/v1/models/a//b", nil, closed},
		{"GET", "/v1/models/a%2e%2e", nil, closed},
		{"GET", "/v1/models/" + strings.Repeat("a", 300), nil, closed},
		{"GET", "/v1/modelsx", nil, closed},

		{"POST", "/v1/audio/speech", []string{"/v1/audio/speech"}, passes},
		{"POST", "/v1/audio/speech2", []string{"/v1/audio/speech"}, closed},
		{"DELETE", "/v1/files/a%20b", []string{"/v1/files/*"}, passes},
		{"GET", "/v1/files/..%2f..%2fsleep", []string{"/v1/files/*"}, closed},
		{"GET", "/v1/files/%2e%2e/sleep", []string{"/v1/files/*"}, closed},
		{"GET", "/v1/files//sleep", []string{"/v1/files/*"}, closed},
		{"GET", "/slots", []string{all}, passes},
		{"POST", "/v1/chat/completions", []string{all}, generates},
		{"POST", "//v1/chat/completions", []string{all}, closed},
		{"POST", "/x/..%2Fv1/chat/completions", []string{all}, closed},
	} {
		u, err := url.ParseRequestURI(test.target)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := of(&http.Request{Method: test.method, URL: u}, test.more); got != test.want {
			t.Errorf("%s %s with %q: %v, want %v", test.method, test.target, test.more, got, test.want)
		}
	}
}

// A wrong method says which ones are right.
func TestWrongMethodTellsTheRightOnes(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}})
	resp, body := g.do(http.MethodGet, chatPath, nil, nil)
	wantError(t, resp, body, http.StatusMethodNotAllowed, "method_not_allowed")
	if got := resp.Header.Get("Allow"); got != "OPTIONS, POST" {
		t.Errorf("allowed are %q", got)
	}
}

// Requests without a body are forwarded: none of them is our business.
func TestRequestsWithoutBodyReachAnEngine(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	g := start(t, site{upstreams: []string{e.address()}})
	for _, r := range []struct{ method, path string }{
		{"GET", "/v1/models"},
		{"GET", "/v1/models/meta-llama%2FLlama"},
		{"POST", chatPath},
		{"HEAD", "/"},
		{"OPTIONS", chatPath},
		{"GET", "/health"},
	} {
		if resp, body := g.do(r.method, r.path, nil, nil); resp.StatusCode != http.StatusNoContent {
			t.Errorf("%s %s: %d %s", r.method, r.path, resp.StatusCode, body)
		}
	}
	seen, _ := e.requests()
	if len(seen) != 6 || seen[1].RequestURI != "/v1/models/meta-llama%2FLlama" {
		t.Errorf("the engine got %d requests of 6", len(seen))
	}
	g.calm()
	// Only what generates counts.
	for _, ep := range g.pool.Endpoints() {
		if n := ep.Ended(1); n != 1 {
			t.Errorf("%d attempts are counted as served, want the one chat", n)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range spellings("/sleep") {
		f.Add(s)
	}
	f.Add("/v1/models/a%2Fb")
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.URL = u
		if k, _ := of(r, nil); k == closed {
			return
		}
		// Whatever is served is a known path, or a model without ways out of it,
		// however often it is unescaped.
		sent := u.EscapedPath()
		if open[sent] != nil {
			return
		}
		for range 3 {
			if strings.Contains(sent, "..") && strings.Contains("/"+sent+"/", "/../") || strings.ContainsAny(sent, "\\;\x00") || !strings.HasPrefix(sent, "/v1/models/") {
				t.Fatalf("%q is served and sent as %q", target, sent)
			}
			if sent, err = url.PathUnescape(sent); err != nil {
				return
			}
		}
	})
}
