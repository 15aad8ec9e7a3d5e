package health

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// adminAPI answers as Caddy's admin endpoint would: the routes in a mux, errors
// by their status.
func adminAPI(t *testing.T, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	for _, route := range new(admin).Routes() {
		mux.HandleFunc(route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := route.Handler.ServeHTTP(w, r); err != nil {
				var api caddy.APIError
				if !errors.As(err, &api) {
					t.Errorf("%s %s: %v is no API error", method, path, err)
				}
				w.WriteHeader(api.HTTPStatus)
			}
		})
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func poolsJSON(t *testing.T) string {
	t.Helper()
	w := adminAPI(t, http.MethodGet, "/llmlb/pools")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("GET /llmlb/pools is %d, %s", w.Code, w.Header().Get("Content-Type"))
	}
	return w.Body.String()
}

// GET /llmlb/pools lists every living pool; numbers nobody knows are null.
func TestPoolsOverTheAdminAPI(t *testing.T) {
	if got := poolsJSON(t); got != "[]\n" {
		t.Errorf("without pools: %s, want an empty list", got)
	}
	c := newConfig(t, nil)
	defer c.end(t)
	s := settings(t, nil, "a:1", "b:1")
	s.Scrape.Engine = none
	s.Members[0].Name = "gpu-a"
	h := c.watch(t, s)
	c.start(t)
	signals := llmlb.NoSignals(time.Now())
	signals.Engine, signals.Running, signals.Waiting = "vllm", 3, 1
	h.Settings().Members[0].Endpoint.ObserveSignals(signals)

	var got []llmlb.PoolStatus
	if err := json.Unmarshal([]byte(poolsJSON(t)), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Pool != t.Name() || len(got[0].Endpoints) != 2 {
		t.Fatalf("got %+v, want one pool of two", got)
	}
	a, b := got[0].Endpoints[0], got[0].Endpoints[1]
	if a.Name != "gpu-a" || a.Running == nil || *a.Running != 3 || a.KVUsage != nil {
		t.Errorf("first row is %+v", a)
	}
	if b.Name != llmlb.DefaultName(t.Name(), "b:1") || b.Running != nil || b.Waiting != nil || b.State != "up" {
		t.Errorf("second row is %+v", b)
	}
}

// What the admin API does not have, it says in the right way.
func TestAdminAPIRefuses(t *testing.T) {
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{http.MethodPost, "/llmlb/pools", http.StatusMethodNotAllowed},
		{http.MethodDelete, "/llmlb/pools", http.StatusMethodNotAllowed},
		{http.MethodGet, "/llmlb/pools/", http.StatusNotFound},
		{http.MethodGet, "/llmlb/pools/x", http.StatusNotFound},
		{http.MethodGet, "/llmlb/", http.StatusNotFound},
		{http.MethodPost, "/llmlb/drain", http.StatusNotFound},
	} {
		w := adminAPI(t, c.method, c.path)
		if w.Code != c.want {
			t.Errorf("%s %s is %d, want %d", c.method, c.path, w.Code, c.want)
		}
		if c.want == http.StatusMethodNotAllowed && w.Header().Get("Allow") != http.MethodGet {
			t.Errorf("%s %s does not say what is allowed", c.method, c.path)
		}
	}
}
