package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// Neither prompts nor keys appear in logs, metrics, the admin API or answers,
// at debug level, with errors of every kind.
func TestPromptsAndKeysStayOutOfLogs(t *testing.T) {
	a := newBackend(t)
	log := filepath.Join(t.TempDir(), "log")
	g := start(t, fmt.Sprintf("log {\noutput file %s\nlevel DEBUG\n}\nllm_proxy %s %s {\n%sretries 0\n}\n", log, a.addr(), freeAddr(t), fast))
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		switch {
		case bytes.Contains(body, []byte("fail")):
			http.Error(w, `{"error":{"message":"boom"}}`, http.StatusInternalServerError)
		case bytes.Contains(body, []byte("abort")):
			panic(http.ErrAbortHandler)
		default:
			answer(w, r, body)
		}
	})
	var answers strings.Builder
	for _, body := range []string{
		chat(false, "", "SECRET123"),
		chat(true, "", "SECRET123"),
		chat(false, "", "SECRET123 fail"),
		chat(false, "", "SECRET123 abort"),
		`{"model":"SECRET123","messages":[{"role":"user","content":"SECRET123`,
		`{"model":"m","model":"SECRET123","messages":[]}`,
		`{"SECRET123":1,"priority":1,"messages":[]}`,
	} {
		for range 3 {
			req, err := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer SECRET124")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			answers.Write(text)
			fmt.Fprint(&answers, res.Header)
		}
	}
	for _, path := range []string{"/llmlb/pools", "/metrics"} {
		res := g.fromAdmin(path)
		answers.WriteString(read(t, res).body)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) == 0 {
		t.Fatal("nothing was logged")
	}
	for what, s := range map[string]string{"log": string(text), "answers": answers.String()} {
		for _, secret := range []string{"SECRET123", "SECRET124"} {
			if i := strings.Index(s, secret); i >= 0 {
				t.Errorf("the %s holds %s: …%s…", what, secret, s[max(0, i-200):min(len(s), i+50)])
			}
		}
	}
}

// What a client sees of a failure has no address, port or Go error in it.
func TestErrorsTellNoAddresses(t *testing.T) {
	dead := freeAddr(t)
	a := newBackend(t)
	a.answers(func(http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) })
	_, port, _ := strings.Cut(dead, ":")
	_, portA, _ := strings.Cut(a.addr(), ":")
	const atOnce = "queue {\nmax_wait 0\n}\n"
	for name, site := range map[string]string{
		"refused":          fmt.Sprintf("llm_proxy %s {\n%s%s}\n", dead, fast, atOnce),
		"closed":           fmt.Sprintf("llm_proxy %s {\n%s%s}\n", a.addr(), fast, atOnce),
		"all draining":     fmt.Sprintf("llm_proxy %s {\n%sendpoint %s {\ndrain\n}\n}\n", a.addr(), atOnce, a.addr()),
		"unresolvable":     "llm_proxy no-such-host.invalid:80 {\n" + atOnce + "}\n",
		"unknown protocol": fmt.Sprintf("llm_proxy https://%s {\n%s%s}\n", a.addr(), fast, atOnce),
		"after a wait":     fmt.Sprintf("llm_proxy %s {\n%squeue {\nmax_wait 200ms\n}\n}\n", dead, fast),
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, site)
			for range 5 {
				r := g.post(chat(true, "", "hi"))
				if r.status < 500 || !strings.Contains(r.body, `"error"`) {
					t.Errorf("status %d: %s", r.status, r.body)
				}
				all := r.body + fmt.Sprint(r.header)
				for _, leak := range []string{"127.0.0.1", port, portA, "dial", "EOF", "tcp", "invalid:", "lookup"} {
					if strings.Contains(all, leak) {
						t.Errorf("the answer holds %q: %s", leak, all)
					}
				}
			}
		})
	}
}

// Paths that steer or stop an engine never reach it, however they are spelled.
func TestControlPathsNeverReachAnEngine(t *testing.T) {
	g, a, b := pair(t, "")
	for _, path := range controlPaths {
		for _, spelling := range []string{
			path, path + "/", "/" + path, "/." + path, "/v1/.." + path, "/x/.." + path,
			strings.Replace(path, path[1:2], fmt.Sprintf("%%%02x", path[1]), 1),
			path + ";x=1", path + "?v1/chat/completions", "/v1/models/../.." + path,
			"/v1/models/..%2f.." + strings.ReplaceAll(path, "/", "%2f"),
			strings.ToUpper(path), "/%2e" + path, `/\` + path, path + "%00",
			"/v1/chat/completions/.." + "/../.." + path,
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				status, ok := request(t, g, method, spelling)
				if ok && status != http.StatusNotFound && status != http.StatusBadRequest && status != http.StatusMethodNotAllowed {
					t.Errorf("%s %s: status %d", method, spelling, status)
				}
			}
		}
	}
	for _, x := range []*backend{a, b} {
		x.mu.Lock()
		for _, p := range x.paths {
			t.Errorf("reached an engine: %s", p)
		}
		x.mu.Unlock()
	}
}

// controlPaths are what the engines serve that no client may call.
var controlPaths = []string{
	"/flush_cache", "/sleep", "/wake_up", "/is_sleeping", "/v1/load_lora_adapter",
	"/v1/unload_lora_adapter", "/update_weights_from_disk", "/abort_request",
	"/api/delete", "/api/pull", "/api/push", "/api/create", "/api/copy", "/api/ps",
	"/slots", "/slots/0", "/props", "/metrics", "/prometheus/metrics", "/v1/metrics",
	"/v1/loads", "/get_load", "/server_info", "/get_server_info", "/load",
	"/start_profile", "/stop_profile", "/kv_cache_events", "/reset_prefix_cache",
	"/health_generate", "/lora-adapters", "/get_model_info", "/set_internal_state",
	"/pause_generation", "/admin", "/docs", "/openapi.json",
}
