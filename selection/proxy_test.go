package selection

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llmlb/caddy-llmlb/health"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	_ "github.com/caddy-llmlb/caddy-llmlb/transport"
)

// server is a scripted inference server.
type server struct {
	*httptest.Server
	name string

	mu      sync.Mutex
	bodies  [][]byte
	lengths []int64 // Content-Length as received, -1 for chunks
	hits    int
	page    string        // its metrics
	answer  http.Handler  // in place of the default answer
	hold    chan struct{} // when not nil, answers wait for it
}

func newServer(t *testing.T, name string) *server {
	t.Helper()
	s := &server{name: name}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" {
		s.mu.Lock()
		defer s.mu.Unlock()
		io.WriteString(w, s.page)
		return
	}
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.hits++
	s.bodies = append(s.bodies, body)
	s.lengths = append(s.lengths, r.ContentLength)
	answer, hold := s.answer, s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	if answer != nil {
		answer.ServeHTTP(w, r)
		return
	}
	w.Header().Set("X-Server", s.name)
	fmt.Fprintf(w, "%d bytes", len(body))
}

func (s *server) address() string { return s.Listener.Addr().String() }

func (s *server) seen() (hits int, last []byte, length int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hits > 0 {
		last, length = s.bodies[s.hits-1], s.lengths[s.hits-1]
	}
	return s.hits, last, length
}

func (s *server) count() int { n, _, _ := s.seen(); return n }

// tells sets the load on its metrics page, which is vLLM's.
func (s *server) tells(running, waiting int, kv float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.page = fmt.Sprintf("vllm:num_requests_running{model_name=\"m\"} %d\nvllm:num_requests_waiting{model_name=\"m\"} %d\nvllm:kv_cache_usage_perc{model_name=\"m\"} %v\n",
		running, waiting, kv)
}

// refused returns a loopback address where nobody listens.
func refused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// run loads a site whose reverse_proxy block holds the lines, under a pool
// named after the test, and returns its URL.
func run(t *testing.T, upstreams []string, policy, proxy string) string {
	t.Helper()
	listen := refused(t)
	load(t, site(t, listen, upstreams, policy, proxy))
	stopAfter(t)
	return "http://" + listen
}

// poolName is the name of the test's own pool.
func poolName(t *testing.T) string { return fmt.Sprintf("test-%x", hashText(t.Name())) }

func site(t *testing.T, listen string, upstreams []string, policy, proxy string) string {
	return fmt.Sprintf("{\n admin off\n persist_config off\n auto_https off\n log {\n  output discard\n }\n}\nhttp://%s {\n reverse_proxy %s {\n  lb_policy llm {\n   pool %s\n   index_bytes 1MiB\n%s\n  }\n%s\n }\n}\n",
		listen, strings.Join(upstreams, " "), poolName(t), policy, proxy)
}

func load(t *testing.T, config string) {
	t.Helper()
	adapted, err := adapt(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(adapted, true); err != nil {
		t.Fatal(err)
	}
}

func adapt(config string) (json.RawMessage, error) {
	adapted, _, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
	return adapted, err
}

func addressesOf(servers ...*server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.address()
	}
	return list
}

// chat returns the body of a chat request with a prompt of about the given
// number of bytes.
func chat(text string, bytes int) string {
	if n := bytes - len(text); n > 0 {
		text += strings.Repeat(" and", n/4)
	}
	b, _ := json.Marshal(map[string]any{"model": "m", "messages": []map[string]string{{"role": "user", "content": text}}})
	return string(b)
}

// client opens a connection for each request: idle ones are closed by a reload,
// which a client that keeps them must be ready for.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// post sends a chat request and returns the status and which server answered.
func post(t *testing.T, url string, body io.Reader) (status int, by string) {
	t.Helper()
	r, err := client.Post(url+"/v1/chat/completions", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, r.Header.Get("X-Server")
}

// chunked hides a reader's length, so that the client must send chunks.
func chunked(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

// pool returns the test's living pool.
func pool(t *testing.T) *llmlb.Pool { return poolNamed(t, poolName(t)) }

func poolNamed(t *testing.T, name string) *llmlb.Pool {
	t.Helper()
	var found *llmlb.Pool
	llmlb.Pools(func(p *llmlb.Pool) {
		if p.Name() == name {
			found = p
		}
	})
	if found == nil {
		t.Fatal("the pool does not live")
	}
	return found
}

// openCalls is how many calls are booked in the pool.
func openCalls(t *testing.T) int {
	p := pool(t)
	n := 0
	for _, e := range p.Endpoints() {
		p.Lock()
		prefill, decode := e.Ledger().OwnCalls()
		p.Unlock()
		n += prefill + decode
	}
	return n
}

// eventually waits for what another goroutine will bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 seconds", what)
		}
	}
}

// stopAfter stops Caddy when the test ends.
func stopAfter(t *testing.T) {
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// list is a source of upstreams that are new at every request, as those of DNS
// are.
type list struct {
	Addresses []string `json:"addresses"`
}

func init() { caddy.RegisterModule(new(list)) }

func (*list) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.upstreams.test_list", New: func() caddy.Module { return new(list) }}
}

func (l *list) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	l.Addresses = d.RemainingArgs()
	return nil
}

func (l *list) GetUpstreams(*http.Request) ([]*reverseproxy.Upstream, error) {
	var us []*reverseproxy.Upstream
	for _, a := range l.Addresses {
		us = append(us, &reverseproxy.Upstream{Dial: a})
	}
	return us, nil
}
