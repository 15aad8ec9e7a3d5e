package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// adminAPI answers as Caddy's admin endpoint would: the routes in a mux, errors
// by their status.
func adminAPI(t *testing.T, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	return adminTold(t, method, path, "")
}

// adminTold is adminAPI with a body.
func adminTold(t *testing.T, method, path, body string) *httptest.ResponseRecorder {
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
				_, _ = w.Write([]byte(err.Error()))
			}
		})
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
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
		{http.MethodPost, "/llmlb/explain", http.StatusMethodNotAllowed},
		{http.MethodHead, "/llmlb/explain", http.StatusMethodNotAllowed},
		{http.MethodGet, "/llmlb/explain/", http.StatusNotFound},
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

// choose records a choice of the endpoint, as selection does.
func choose(p *llmlb.Pool, s *llmlb.Settings, at time.Time, endpoint string) {
	p.Lock()
	defer p.Unlock()
	k := p.NextPick()
	k.At, k.Strategy, k.Model, k.InputTokens, k.Kept, k.Of = at, s.Strategy, "llama", 2300, 1, 1
	k.Candidates[0].Name = endpoint
}

// explained asks for choices and returns "pool/endpoint" of each.
func explained(t *testing.T, query string) []string {
	t.Helper()
	w := adminAPI(t, http.MethodGet, "/llmlb/explain"+query)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("GET /llmlb/explain%s is %d, %v: %s", query, w.Code, w.Header(), w.Body)
	}
	var picks []llmlb.PickStatus
	if err := json.Unmarshal(w.Body.Bytes(), &picks); err != nil || picks == nil {
		t.Fatalf("answer %s: %v, want a list", w.Body, err)
	}
	names := make([]string, len(picks))
	for i, k := range picks {
		names[i] = k.Pool + "/" + k.Endpoint
	}
	return names
}

// GET /llmlb/explain tells the last choices of all pools, the newest first, or
// those that were asked for.
func TestExplainOverTheAdminAPI(t *testing.T) {
	if got := explained(t, ""); len(got) != 0 {
		t.Errorf("without pools: %v, want an empty list", got)
	}
	c := newConfig(t, nil)
	defer c.end(t)
	pool := func(name string, members ...llmlb.Member) (*llmlb.Pool, *llmlb.Settings) {
		s := settings(t, nil)
		s.Pool, s.Members, s.Scrape.Engine = name, members, none
		h := c.watch(t, s)
		return h.Pool(), h.Settings()
	}
	chat, chatSettings := pool("chat", llmlb.Member{Address: "a:1", Name: "gpu-a"}, llmlb.Member{Address: "b:1", Name: "gpu-b"})
	embed, embedSettings := pool("embed", llmlb.Member{Address: "[::1]:80", Name: "gpu-e"}, llmlb.Member{Address: "idle:1", Name: "idle"})
	c.start(t)
	if got := explained(t, "?pool=chat"); len(got) != 0 {
		t.Errorf("before any choice: %v, want an empty list", got)
	}
	now := time.Now()
	choose(chat, chatSettings, now, "gpu-a")
	choose(embed, embedSettings, now.Add(1), "gpu-e")
	choose(chat, chatSettings, now.Add(2), "gpu-b")
	choose(chat, chatSettings, now.Add(3), "left")
	for query, want := range map[string]string{
		"":                          "chat/left chat/gpu-b embed/gpu-e chat/gpu-a",
		"?limit=2":                  "chat/left chat/gpu-b",
		"?pool=embed":               "embed/gpu-e",
		"?endpoint=gpu-a":           "chat/gpu-a",
		"?endpoint=b:1":             "chat/gpu-b",
		"?endpoint=%5B::1%5D:80":    "embed/gpu-e",
		"?endpoint=left":            "chat/left", // no longer configured, but remembered
		"?endpoint=idle":            "",
		"?pool=chat&endpoint=gpu-b": "chat/gpu-b",
		"?endpoint=gpu-b&limit=1":   "chat/gpu-b",
		"?pool=chat&limit=64":       "chat/left chat/gpu-b chat/gpu-a",
		"?limit=1&pool=chat":        "chat/left",
	} {
		if got := strings.Join(explained(t, query), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}

	for i := range 100 {
		choose(embed, embedSettings, now.Add(time.Duration(10+i)), fmt.Sprint(i))
	}
	if got := explained(t, ""); len(got) != 20 || got[0] != "embed/99" || got[19] != "embed/80" {
		t.Errorf("by default %d choices from %v, want the last twenty", len(got), got)
	}
	if got := explained(t, "?limit=64"); len(got) != 64 {
		t.Errorf("%d choices, want 64", len(got))
	}

	for query, want := range map[string]string{
		"?limit=0":                  `400 parameter "limit" is "0"; have 1 to 64`,
		"?limit=65":                 `400 parameter "limit" is "65"; have 1 to 64`,
		"?limit=-1":                 `400 parameter "limit" is "-1"; have 1 to 64`,
		"?limit=ten":                `400 parameter "limit" is "ten"; have 1 to 64`,
		"?limit=99999999999999999":  `400 parameter "limit" is "99999999999999999"; have 1 to 64`,
		"?limit=":                   `400 parameter "limit" is empty`,
		"?pool=":                    `400 parameter "pool" is empty`,
		"?pool=chat&pool=embed":     `400 parameter "pool" is given 2 times`,
		"?pools=chat":               `400 unknown parameter "pools"; have endpoint, limit, pool`,
		"?pool=%zz":                 `400 reading the query: `,
		"?pool=code":                `404 there is no pool "code"; have chat, embed`,
		"?endpoint=gpu-z":           `404 there is no endpoint "gpu-z"; have gpu-a, gpu-b, gpu-e, idle`,
		"?pool=chat&endpoint=gpu-e": `404 there is no endpoint "gpu-e"; have gpu-a, gpu-b`,
	} {
		w := adminAPI(t, http.MethodGet, "/llmlb/explain"+query)
		if got := fmt.Sprint(w.Code, " ", w.Body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// An error that lists names does not list a thousand.
func TestExplainListsFewNames(t *testing.T) {
	c := newConfig(t, nil)
	defer c.end(t)
	var addresses []string
	for i := range 1000 {
		addresses = append(addresses, fmt.Sprintf("host:%d", i+1))
	}
	s := settings(t, nil, addresses...)
	s.Scrape.Engine = none
	c.watch(t, s)
	c.start(t)
	w := adminAPI(t, http.MethodGet, "/llmlb/explain?endpoint=gone")
	if got := w.Body.String(); w.Code != http.StatusNotFound || len(got) > 400 || !strings.HasSuffix(got, " and 980 more") {
		t.Errorf("%d %s", w.Code, got)
	}
}
