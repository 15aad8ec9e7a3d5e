package admission

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/cespare/xxhash/v2"

	_ "github.com/caddy-llmlb/caddy-llmlb/health"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	_ "github.com/caddy-llmlb/caddy-llmlb/transport"
)

type object = map[string]any

// limit bounds every wait. It is reached only by a test that fails.
const limit = 20 * time.Second

// engine is a scripted inference server that remembers what it got.
type engine struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request // bodies read
	got  [][]byte
}

func newEngine(t *testing.T, answer http.HandlerFunc) *engine {
	t.Helper()
	e := new(engine)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e.mu.Lock()
		e.seen, e.got = append(e.seen, r), append(e.got, body)
		e.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *engine) requests() ([]*http.Request, [][]byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]*http.Request(nil), e.seen...), append([][]byte(nil), e.got...)
}

func (e *engine) address() string { return e.Listener.Addr().String() }

// site is what a test wants of the gateway.
type site struct {
	admission object // fields of the handler
	policy    object
	proxy     object
	before    []object // handlers in front
	errors    []object // handlers of the site's error routes
	upstreams []string
	noRetries bool
}

// gateway is a Caddy that runs the site.
type gateway struct {
	t       *testing.T
	address string
	pool    *llmlb.Pool
	log     string // file
}

func start(t *testing.T, s site) *gateway {
	t.Helper()
	g := &gateway{t: t, log: filepath.Join(t.TempDir(), "caddy.log")}
	retries := 2
	if s.noRetries {
		retries = 0
	}
	name := fmt.Sprintf("test-%x", xxhash.Sum64String(t.Name()))
	merge := func(base, more object) object {
		maps.Copy(base, more)
		return base
	}
	dials := make([]object, 0, len(s.upstreams))
	for _, u := range s.upstreams {
		dials = append(dials, object{"dial": u})
	}
	routes := append([]object{}, s.before...)
	routes = append(routes,
		merge(object{"handler": "llm_admission", "pool": name}, s.admission),
		merge(object{
			"handler": "reverse_proxy", "upstreams": dials,
			"transport": object{"protocol": "llm"},
			"load_balancing": object{
				"retries":          retries,
				"selection_policy": merge(object{"policy": "llm", "pool": name, "engine": "none"}, s.policy),
			},
		}, s.proxy))
	server := object{
		"listen":          []string{"127.0.0.1:0"},
		"automatic_https": object{"disable": true},
		"protocols":       []string{"h1", "h2c"},
		"routes":          []object{{"handle": routes}},
		"logs":            object{},
	}
	if s.errors != nil {
		server["errors"] = object{"routes": []object{{"handle": s.errors}}}
	}
	config, err := json.Marshal(object{
		"admin":   object{"disabled": true, "config": object{"persist": false}},
		"storage": object{"module": "file_system", "root": t.TempDir()},
		"logging": object{"logs": object{"default": object{"level": "DEBUG", "writer": object{"output": "file", "filename": g.log}}}},
		"apps": object{
			"http": object{"grace_period": "1s", "servers": object{"main": server}},
			"tls":  object{"disable_storage_check": true, "disable_storage_clean": true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		t.Fatalf("loading the config: %v", err)
	}
	g.pool = llmlb.Acquire(name)
	t.Cleanup(func() {
		_ = caddy.Stop()
		g.pool.Release()
	})
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		t.Fatal(err)
	}
	g.address = app.(*caddyhttp.App).Servers["main"].Listeners()[0].Addr().String()
	return g
}

// logged returns everything that was logged by the time the access log has n
// entries: a request's entry is written after its client has the answer.
func (g *gateway) logged(n int) (text string, access []object) {
	g.t.Helper()
	for until := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(g.log)
		if err != nil {
			g.t.Fatal(err)
		}
		access = nil
		for line := range strings.Lines(string(b)) {
			var entry object
			if json.Unmarshal([]byte(line), &entry) == nil && entry["logger"] == "http.log.access" {
				access = append(access, entry)
			}
		}
		if len(access) >= n {
			return string(b), access
		}
		if time.Now().After(until) {
			g.t.Fatalf("%d access log entries, want %d", len(access), n)
		}
	}
}

// access returns the access log's only entry.
func (g *gateway) access() object {
	g.t.Helper()
	_, entries := g.logged(1)
	if len(entries) != 1 {
		g.t.Errorf("%d access log entries, want 1", len(entries))
	}
	return entries[0]
}

// calm checks that every reservation is given back.
func (g *gateway) calm() {
	g.t.Helper()
	until := time.Now().Add(limit)
	for {
		open := 0
		for _, e := range g.pool.Endpoints() {
			g.pool.Lock()
			prefill, decode := e.Ledger().OwnCalls()
			tokens, output := e.Ledger().TokensInFlight()
			g.pool.Unlock()
			open += prefill + decode + tokens + output
		}
		if open == 0 {
			return
		}
		if time.Now().After(until) {
			g.t.Fatalf("%d calls and tokens are still reserved", open)
		}
		time.Sleep(time.Millisecond) // the server's side of a request ends after the client's
	}
}

func client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: limit}
}

const (
	chatPath = "/v1/chat/completions"
	plain    = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	streamed = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`
)

// post sends a chat request and reads the whole answer.
func (g *gateway) post(path, body string) (*http.Response, string) {
	g.t.Helper()
	return g.do(http.MethodPost, path, strings.NewReader(body), nil)
}

func (g *gateway) do(method, path string, body io.Reader, header http.Header) (*http.Response, string) {
	g.t.Helper()
	req, err := http.NewRequest(method, "http://"+g.address+path, body)
	if err != nil {
		g.t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	resp, err := client(g.t).Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatalf("reading the answer: %v", err)
	}
	return resp, string(b)
}

// raw sends bytes on a connection of their own and returns all that comes back
// until the gateway closes or the client has had one answer and closes itself.
func (g *gateway) raw(request string) (*http.Response, string) {
	g.t.Helper()
	conn := g.dial()
	if _, err := io.WriteString(conn, request); err != nil {
		g.t.Fatal(err)
	}
	return g.answer(bufio.NewReader(conn))
}

func (g *gateway) dial() net.Conn {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.address)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(limit))
	return conn
}

func (g *gateway) answer(r *bufio.Reader) (*http.Response, string) {
	g.t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		g.t.Fatalf("reading the answer: %v", err)
	}
	b, _ := io.ReadAll(resp.Body)
	return resp, string(b)
}

// wantError checks an error answer in OpenAI's shape and returns its message.
func wantError(t *testing.T, resp *http.Response, body string, status int, code string) string {
	t.Helper()
	var e struct {
		Error *struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
			Code    string  `json:"code"`
		} `json:"error"`
	}
	if resp.StatusCode != status {
		t.Fatalf("got %d %s, want %d", resp.StatusCode, body, status)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("the error's type is %q", ct)
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error == nil || e.Error.Message == "" || e.Error.Type == "" {
		t.Fatalf("%q is no error as OpenAI writes them (%v)", body, err)
	}
	if e.Error.Code != code {
		t.Errorf("the code is %q, want %q", e.Error.Code, code)
	}
	return e.Error.Message
}

func sse(w http.ResponseWriter, data ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, d := range data {
		fmt.Fprintf(w, "data: %s\n\n", d)
	}
	_ = http.NewResponseController(w).Flush()
}
