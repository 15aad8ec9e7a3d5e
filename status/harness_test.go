package status

import (
	"bufio"
	"context"
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
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llmlb/caddy-llmlb/caddyfile"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// limit bounds each wait. Only a failing test reaches it.
const limit = 15 * time.Second

// site is a running Caddy with a status page before two servers.
type site struct {
	t       *testing.T
	address string
	servers []*httptest.Server
	log     string // its file
	loads   int
}

// start runs Caddy with the directives below /status, until the test ends.
func start(t *testing.T, directives string) *site {
	t.Helper()
	s := &site{t: t, address: freeAddress(t), log: t.TempDir() + "/log"}
	for range 2 {
		server := httptest.NewServer(http.HandlerFunc(serve))
		t.Cleanup(server.Close)
		s.servers = append(s.servers, server)
	}
	s.load(directives)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
		// Stop does not wait for requests whose clients have left.
		eventually(t, "the watch to end with the last configuration that has a page", func() bool {
			some := false
			watches.Range(func(any, any) bool {
				some = true
				return false
			})
			return !some
		})
	})
	return s
}

// serve answers as vLLM would: numbers, and a short completion.
func serve(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/metrics":
		io.WriteString(w, "vllm:num_requests_running{model_name=\"m\"} 3\nvllm:num_requests_waiting{model_name=\"m\"} 1\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.25\n")
	case "/health":
	case "/v1/chat/completions":
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":1}}`)
	default:
		http.NotFound(w, r)
	}
}

// load loads or reloads Caddy.
func (s *site) load(directives string) {
	s.t.Helper()
	if err := s.try(directives); err != nil {
		s.t.Fatalf("loading: %v", err)
	}
}

func (s *site) try(directives string) error {
	s.loads++
	text := fmt.Sprintf("{\nadmin off\nauto_https off\ndefault_bind 127.0.0.1\npersist_config off\ngrace_period 30s\nlog {\noutput file %s\n}\n}\nhttp://%s {\n%s\nllm_proxy", s.log, s.address, directives)
	for _, server := range s.servers {
		text += " " + server.Listener.Addr().String()
	}
	text += " {\nscrape_interval 50ms\nstale_after 5s\n"
	for i, server := range s.servers {
		text += fmt.Sprintf("endpoint %s {\nname gpu-%d\n}\n", server.Listener.Addr(), i+1)
	}
	text += fmt.Sprintf("}\n}\n# %d\n", s.loads)
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err
	}
	return caddy.Load(config, true)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// answer is a whole answer.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request and reads the whole answer. It follows no redirects.
func (s *site) do(method, path, body string, header ...string) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DisableKeepAlives: true},
	}
	res, err := client.Do(req)
	for deadline := time.Now().Add(limit); err != nil && s.loads > 1 && time.Now().Before(deadline); {
		req.Body = io.NopCloser(strings.NewReader(body))
		res, err = client.Do(req)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(text)}
}

// code is the code word of an error.
func (r answer) code() string {
	var e struct{ Error struct{ Code string } }
	_ = json.Unmarshal([]byte(r.body), &e)
	return e.Error.Code
}

// page is an open stream of events.
type page struct {
	t      *testing.T
	res    *http.Response
	events chan [2]string // name and data; closed when the stream ends
	close  func()
}

// open opens a stream.
func (s *site) open() *page {
	s.t.Helper()
	p, res := s.tryOpen()
	if p == nil {
		s.t.Fatalf("the stream is answered %s", res.Status)
	}
	return p
}

func (s *site) tryOpen() (*page, *http.Response) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/status/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{}
	res, err := (&http.Client{Transport: transport}).Do(req)
	// A listener that a reload closes takes along what it has not accepted yet.
	for deadline := time.Now().Add(limit); err != nil && s.loads > 1 && time.Now().Before(deadline); {
		res, err = (&http.Client{Transport: transport}).Do(req)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	p := &page{t: s.t, res: res, events: make(chan [2]string, 1000)}
	p.close = sync.OnceFunc(func() {
		cancel()
		res.Body.Close()
		transport.CloseIdleConnections()
	})
	s.t.Cleanup(p.close)
	if res.StatusCode != http.StatusOK {
		p.close()
		return nil, res
	}
	go func() {
		defer close(p.events)
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 16<<20)
		name := ""
		for lines.Scan() {
			switch line := lines.Text(); {
			case strings.HasPrefix(line, "event: "):
				name = line[len("event: "):]
			case strings.HasPrefix(line, "data: "):
				p.events <- [2]string{name, line[len("data: "):]}
			}
		}
	}()
	return p, res
}

// next waits for an event of that name for which ok holds, and returns its data.
func (p *page) next(name string, ok func(data string) bool) string {
	p.t.Helper()
	timeout := time.After(limit)
	last := "nothing"
	for {
		select {
		case e, open := <-p.events:
			if !open {
				p.t.Fatalf("the stream ended before an event %q; the last was %s", name, last)
			}
			if last = e[0] + " " + e[1]; e[0] == name && (ok == nil || ok(e[1])) {
				return e[1]
			}
		case <-timeout:
			p.t.Fatalf("no event %q as wanted within %v; the last was %.300s", name, limit, last)
		}
	}
}

// ended waits until the stream has ended.
func (p *page) ended(within time.Duration) {
	p.t.Helper()
	timeout := time.After(within)
	for {
		select {
		case _, open := <-p.events:
			if !open {
				return
			}
		case <-timeout:
			p.t.Fatalf("the stream goes on %v later", within)
		}
	}
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v in vain for %s", limit, what)
		}
	}
}

// endpoint returns the named endpoint of the running pool.
func endpoint(t *testing.T, name string) (found *llmlb.Endpoint) {
	t.Helper()
	llmlb.Pools(func(p *llmlb.Pool) {
		for _, e := range p.Endpoints() {
			if e.Name() == name {
				found = e
			}
		}
	})
	if found == nil {
		t.Fatalf("there is no endpoint %q", name)
	}
	return found
}

func stateOf(t *testing.T, name string) string {
	t.Helper()
	e := endpoint(t, name)
	e.Pool().Lock()
	defer e.Pool().Unlock()
	s, _, _ := e.State(time.Now())
	return s.String()
}
