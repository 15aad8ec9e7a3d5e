package contract

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode/gzip"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
)

// object is a piece of JSON config.
type object = map[string]any

// limit bounds every wait of these tests. It is reached only by a test that fails.
const limit = 10 * time.Second

// load runs a config whose only HTTP server has the given routes and returns
// the base URL of that server. Further apps may be given. The config stops when
// the test ends.
func load(t *testing.T, handlers []object, apps ...object) string {
	t.Helper()
	if err := tryLoad(t, handlers, apps...); err != nil {
		t.Fatalf("loading the config: %v", err)
	}
	return baseURL(t)
}

// tryLoad is load for configs that may be refused.
func tryLoad(t *testing.T, handlers []object, apps ...object) error {
	t.Helper()
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping Caddy: %v", err)
		}
	})
	return caddy.Load(encode(t, config(t, handlers, apps...)), true)
}

func encode(t *testing.T, cfg object) []byte {
	t.Helper()
	raw, err := json.Marshal(cfg)
	if err != nil {
		t.Fatalf("encoding the config: %v", err)
	}
	return raw
}

// decode is for those of Caddy's functions that take a config as Go values.
func decode(t *testing.T, cfg object) *caddy.Config {
	t.Helper()
	decoded := new(caddy.Config)
	if err := json.Unmarshal(encode(t, cfg), decoded); err != nil {
		t.Fatalf("decoding the config: %v", err)
	}
	return decoded
}

// config keeps everything that these tests do not look at out of the way: no
// admin endpoint, no logs, no certificates, no files outside the test's folder.
func config(t *testing.T, handlers []object, apps ...object) object {
	t.Helper()
	all := object{
		"http": object{
			"grace_period": "1s",
			"servers": object{"main": object{
				"listen":          []string{"127.0.0.1:0"},
				"automatic_https": object{"disable": true},
				"routes":          []object{{"handle": handlers}},
			}},
		},
		"tls": object{"disable_storage_check": true, "disable_storage_clean": true},
	}
	for _, app := range apps {
		maps.Copy(all, app)
	}
	return object{
		"admin":   object{"disabled": true, "config": object{"persist": false}},
		"logging": object{"logs": object{"default": object{"writer": object{"output": "discard"}}}},
		"storage": object{"module": "file_system", "root": t.TempDir()},
		"apps":    all,
	}
}

// baseURL is where the running config's server listens.
func baseURL(t *testing.T) string {
	t.Helper()
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		t.Fatalf("finding the http app: %v", err)
	}
	return "http://" + app.(*caddyhttp.App).Servers["main"].Listeners()[0].Addr().String()
}

// proxyTo is a reverse_proxy handler that uses the test's policy and, when the
// test has set one, the test's transport.
func proxyTo(t *testing.T, h hooks, lb object, upstreams ...string) object {
	t.Helper()
	name := register(t, h)
	dials := make([]object, 0, len(upstreams))
	for _, u := range upstreams {
		dials = append(dials, object{"dial": strings.TrimPrefix(u, "http://")})
	}
	balancing := object{}
	if h.choose != nil {
		balancing["selection_policy"] = object{"policy": "contract", "hooks": name}
	}
	maps.Copy(balancing, lb)
	proxy := object{"handler": "reverse_proxy", "upstreams": dials, "load_balancing": balancing}
	if h.roundTrip != nil {
		proxy["transport"] = object{"protocol": "contract", "hooks": name}
	}
	return proxy
}

// inFront is a handler that runs f, which may call next.
func inFront(t *testing.T, f func(http.ResponseWriter, *http.Request, caddyhttp.Handler) error) object {
	t.Helper()
	return object{"handler": "contract", "hooks": register(t, hooks{handle: f})}
}

// backend serves f on a loopback port until the test ends.
func backend(t *testing.T, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

// echo answers with the body it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(w, r.Body)
}

// answer is a response that was read to its end.
type answer struct {
	status int
	body   string
	err    error // from reading the body
}

// post sends body and reads the whole answer.
func post(t *testing.T, url, body string) answer {
	t.Helper()
	res, err := client(t).Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatalf("sending the request: %v", err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, body: string(got), err: err}
}

// client uses its own connections, so that no test meets those of another.
func client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: limit}
}

// await waits for a value that the code under test sends.
func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(limit):
		t.Fatalf("waited %v in vain for %s", limit, what)
		panic("unreachable")
	}
}

// recorder collects values from several goroutines.
type recorder[T any] struct {
	mu  sync.Mutex
	all []T
}

func (r *recorder[T]) add(v T) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, v)
	return len(r.all)
}

func (r *recorder[T]) list() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]T(nil), r.all...)
}
