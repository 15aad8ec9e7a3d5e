package e2e

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// An engine behind TLS with a private authority and an API key: scrapes use the
// options of the requests. Without them its load is unknown, the reason says
// which is missing, and the key is nowhere to be read.
func TestScrapesWithTLSAndKey(t *testing.T) {
	const key = "SECRET124"
	a := newBackendUnstarted(t)
	a.load = load{running: 3, waiting: 2, kv: 0.5}
	a.models = `{"object":"list","data":[{"id":"m","object":"model"}]}`
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (r.URL.Path == "/metrics" || r.URL.Path == "/v1/models") && r.Header.Get("Authorization") != "Bearer "+key {
			a.mu.Lock()
			a.scrapes++
			a.cond.Broadcast()
			a.mu.Unlock()
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		a.ServeHTTP(w, r)
	})
	a.Server = httptest.NewUnstartedServer(handler)
	a.Config.ErrorLog = log.New(io.Discard, "", 0) // it is meant to see bad handshakes
	a.StartTLS()
	t.Cleanup(a.Close)
	dir := t.TempDir()
	ca, logs := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "log")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LLMLB_E2E_KEY", key)
	site := func(options string) string {
		return fmt.Sprintf("log {\noutput file %s\nlevel DEBUG\n}\nllm_proxy https://%s {\n%sendpoint %s {\nname a\n}\n%s}\n", logs, a.addr(), fast, a.addr(), options)
	}
	trust := "transport {\ntls_trust_pool file " + ca + "\n}\n"

	g := start(t, site(""))
	eventually(t, "the authority to be unknown", func() bool { return strings.Contains(g.endpoint("a").Reason, "x509") })
	if row := g.endpoint("a"); row.State != "up" || row.Running != nil {
		t.Errorf("without the authority: row is %+v, want up and without numbers", row)
	}

	if err := g.load(site(trust)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key to be missing", func() bool { return strings.HasPrefix(g.endpoint("a").Reason, "401") })
	if row := g.endpoint("a"); row.State != "up" || row.Running != nil {
		t.Errorf("without the key: row is %+v, want up and without numbers", row)
	}
	if r := g.post(distinct(1)); r.status != http.StatusOK {
		t.Errorf("without the key for metrics: status %d: %s", r.status, r.body)
	}

	if err := g.load(site(trust + "upstream_auth bearer {env.LLMLB_E2E_KEY}\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the page to be read", func() bool { return g.endpoint("a").Running != nil })
	eventually(t, "the list of models to be read", func() bool { return fmt.Sprint(g.endpoint("a").Models) == "[m]" })
	if row := g.endpoint("a"); *row.Running != 3 || *row.Waiting != 2 || row.Reason != "" {
		t.Errorf("with both: row is %+v, want 3 running and 2 waiting", row)
	}

	var shown strings.Builder
	for _, path := range []string{"/llmlb/pools", "/metrics", "/config/"} {
		res := g.fromAdmin(path)
		shown.WriteString(read(t, res).body)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(logs)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), key) || strings.Contains(shown.String(), key) {
		t.Error("the key is in the log or in the admin API")
	}
}
