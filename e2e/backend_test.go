package e2e

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
)

// backend is an inference server that speaks vLLM's metrics and answers as the
// test tells it. It counts everything that reaches it.
type backend struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	cond     *sync.Cond
	load     load
	page     func(w http.ResponseWriter, r *http.Request) // replaces the metrics page
	chat     func(w http.ResponseWriter, r *http.Request, body []byte)
	models   string                                       // its list of models, none if empty
	ready    func(w http.ResponseWriter, r *http.Request) // what it says of its health; else that it is well
	checks   int                                          // of that, by anybody
	asked    int                                          // for that list, by the gateway
	scrapes  int
	hits     int
	open     int
	maxOpen  int
	bodies   [][]byte
	paths    []string
	aborted  int
	ttftSum  float64
	ttftSeen int
}

// load is what the metrics page says.
type load struct {
	running, waiting, kv float64
	ttft                 float64 // seconds; 0 leaves the histogram standing still
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	return lateBackend(t, listen(t))
}

func newBackendUnstarted(t *testing.T) *backend {
	b := &backend{t: t}
	b.cond = sync.NewCond(&b.mu)
	return b
}

// goDown closes the server's door. What is open there ends first.
func (b *backend) goDown() { b.Close() }

// comeUp opens it again at the same address, with all that the server knew.
func (b *backend) comeUp() {
	b.t.Helper()
	addr := b.addr()
	// A connection of somebody else's may have the port for a moment.
	eventually(b.t, "the server's port to be free", func() bool {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return false
		}
		b.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: b}}
		return true
	})
	b.Start()
	b.t.Cleanup(b.Close)
}

// addr is the dial address.
func (b *backend) addr() string { return b.Listener.Addr().String() }

func (b *backend) set(l load) {
	b.mu.Lock()
	b.load = l
	b.mu.Unlock()
}

// shows replaces the metrics page.
func (b *backend) shows(page func(http.ResponseWriter, *http.Request)) {
	b.mu.Lock()
	b.page = page
	b.mu.Unlock()
}

// answers replaces the answer to everything else.
func (b *backend) answers(chat func(w http.ResponseWriter, r *http.Request, body []byte)) {
	b.mu.Lock()
	b.chat = chat
	b.mu.Unlock()
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/metrics":
		b.metrics(w, r)
		return
	case "/prometheus/metrics", "/v1/metrics", "/v1/loads", "/api/ps":
		http.NotFound(w, r) // other engines have their page there
		return
	case "/v1/models":
		if r.UserAgent() == "caddy-llmlb" { // the gateway itself, in the background
			b.listModels(w, r)
			return
		}
	case "/health":
		b.health(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	b.mu.Lock()
	if err != nil {
		b.aborted++
	}
	b.hits++
	b.open++
	b.maxOpen = max(b.maxOpen, b.open)
	b.bodies = append(b.bodies, body)
	b.paths = append(b.paths, r.Method+" "+r.RequestURI)
	chat := b.chat
	b.cond.Broadcast()
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.open--
		b.cond.Broadcast()
		b.mu.Unlock()
	}()
	if chat == nil {
		chat = answer
	}
	chat(w, r, body)
}

// says replaces what the server says of its health.
func (b *backend) says(ready func(w http.ResponseWriter, r *http.Request)) {
	b.mu.Lock()
	b.ready = ready
	b.mu.Unlock()
}

func (b *backend) health(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.checks++
	ready := b.ready
	b.cond.Broadcast()
	b.mu.Unlock()
	if ready != nil {
		ready(w, r)
	}
}

// listModels answers the gateway's own question for the list of models.
func (b *backend) listModels(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.asked++
	list := b.models
	b.cond.Broadcast()
	b.mu.Unlock()
	if list == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, list)
}

func (b *backend) metrics(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.scrapes++
	if b.load.ttft > 0 {
		b.ttftSeen++
		b.ttftSum += b.load.ttft
	}
	l, sum, seen, page := b.load, b.ttftSum, b.ttftSeen, b.page
	b.cond.Broadcast()
	b.mu.Unlock()
	if page != nil {
		page(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, g := range []struct {
		name  string
		value float64
	}{
		{"vllm:num_requests_running", l.running},
		{"vllm:num_requests_waiting", l.waiting},
		{"vllm:kv_cache_usage_perc", l.kv},
	} {
		fmt.Fprintf(w, "# TYPE %s gauge\n%s{engine=\"0\",model_name=\"m\"} %g\n", g.name, g.name, g.value)
	}
	fmt.Fprintf(w, "# TYPE vllm:time_to_first_token_seconds histogram\n")
	fmt.Fprintf(w, "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\",model_name=\"m\"} %d\n", seen)
	fmt.Fprintf(w, "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"m\"} %d\n", seen)
	fmt.Fprintf(w, "vllm:time_to_first_token_seconds_sum{engine=\"0\",model_name=\"m\"} %g\n", sum)
}

// await waits until ok, asked under the lock after every event here, is true.
func (b *backend) await(what string, ok func() bool) {
	b.t.Helper()
	expired := false
	timer := time.AfterFunc(20*time.Second, func() {
		b.mu.Lock()
		expired = true
		b.cond.Broadcast()
		b.mu.Unlock()
	})
	defer timer.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	for !ok() && !expired {
		b.cond.Wait()
	}
	if !ok() {
		b.t.Fatalf("waited in vain for %s", what)
	}
}

// seen waits until the gateway has taken in the metrics page as it is now.
// Scrapes of one server never overlap: when the second one from now begins, the
// first has been read.
func (b *backend) seen() {
	b.t.Helper()
	b.mu.Lock()
	want := b.scrapes + 2
	b.mu.Unlock()
	b.await("a scrape", func() bool { return b.scrapes >= want })
}

func (b *backend) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hits
}

func (b *backend) lastBody() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.bodies) == 0 {
		return nil
	}
	return b.bodies[len(b.bodies)-1]
}

// answer is the default: a short answer, streamed when asked for.
func answer(w http.ResponseWriter, _ *http.Request, body []byte) {
	var q struct {
		Stream bool `json:"stream"`
	}
	_ = json.Unmarshal(body, &q)
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range answerEvents {
		send(w, event)
	}
}

// answerEvents are the events of a whole streamed answer.
var answerEvents = []string{
	`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"one"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":" two"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":" three"}}]}`,
	`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
	`[DONE]`,
}

// streamed is the body of a whole streamed answer.
func streamed() string {
	return "data: " + strings.Join(answerEvents, "\n\ndata: ") + "\n\n"
}

func send(w http.ResponseWriter, event string) {
	fmt.Fprintf(w, "data: %s\n\n", event)
	_ = http.NewResponseController(w).Flush()
}
