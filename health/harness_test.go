package health

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// config is one configuration's life: an App as Caddy would make it.
type config struct {
	*App
	registry *prometheus.Registry
}

func newConfig(t *testing.T, core zapcore.Core) *config {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	a := new(App)
	if err := a.Provision(ctx); err != nil {
		t.Fatalf("provisioning the app: %v", err)
	}
	if core == nil {
		core = zapcore.NewNopCore()
	}
	a.logger = zap.New(core)
	return &config{App: a, registry: ctx.GetMetricsRegistry()}
}

func (c *config) watch(t *testing.T, s *llmlb.Settings) *llmlb.Handle {
	t.Helper()
	h, err := c.Watch(s)
	if err != nil {
		t.Fatalf("watching pool %q: %v", s.Pool, err)
	}
	return h
}

func (c *config) start(t *testing.T) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatalf("starting: %v", err)
	}
}

// end stops the configuration as Caddy does when another has taken over.
func (c *config) end(t *testing.T) {
	t.Helper()
	if err := c.Stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if err := c.Cleanup(); err != nil {
		t.Errorf("cleaning up: %v", err)
	}
}

// settings describes a pool whose servers are reached through rt.
func settings(t *testing.T, rt http.RoundTripper, addresses ...string) *llmlb.Settings {
	s := &llmlb.Settings{
		Pool: t.Name(), Strategy: "work", Fingerprint: fmt.Sprint(addresses), Where: "Caddyfile:1",
		Scrape:   llmlb.Scrape{Engine: auto, Interval: time.Second, StaleAfter: 5 * time.Second},
		Upstream: func() (http.RoundTripper, string) { return rt, "http" },
	}
	for _, a := range addresses {
		s.Members = append(s.Members, llmlb.Member{Address: a})
	}
	return s
}

// servers is a transport to imagined inference servers, by address. It counts
// what it is asked.
type servers struct {
	mu      sync.Mutex
	answers map[string]func(*http.Request) (*http.Response, error)
	ready   map[string]func(*http.Request) (*http.Response, error) // to checks; else whoever answers is
	chats   map[string]func(*http.Request) (*http.Response, error) // to canaries; else there is no such thing
	scrapes map[string][]time.Time
	lists   map[string][]time.Time // requests for the list of models
	checks  map[string][]time.Time
	tries   map[string][]time.Time // canaries
	bodies  map[string][]string    // theirs
	open    map[string]int
	most    map[string]int // scrapes of one address open at once
}

func newServers() *servers {
	return &servers{
		answers: make(map[string]func(*http.Request) (*http.Response, error)),
		ready:   make(map[string]func(*http.Request) (*http.Response, error)),
		chats:   make(map[string]func(*http.Request) (*http.Response, error)),
		scrapes: make(map[string][]time.Time), lists: make(map[string][]time.Time),
		checks: make(map[string][]time.Time), tries: make(map[string][]time.Time), bodies: make(map[string][]string),
		open: make(map[string]int), most: make(map[string]int),
	}
}

func (s *servers) set(address string, answer func(*http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[address] = answer
}

// isReady sets what a server says to readiness checks.
func (s *servers) isReady(address string, answer func(*http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready[address] = answer
}

// chat sets what a server says to canaries.
func (s *servers) chat(address string, answer func(*http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chats[address] = answer
}

// isCheck reports whether it is a readiness check that asks for the path.
func isCheck(path string) bool {
	return strings.Contains(path, "/health") || path == "/api/version" || path == "/ready"
}

func (s *servers) RoundTrip(req *http.Request) (*http.Response, error) {
	host, key := req.URL.Host, req.URL.Host
	s.mu.Lock()
	answer := s.answers[host]
	switch path := req.URL.Path; {
	case path == modelsPath:
		s.lists[host] = append(s.lists[host], time.Now())
	case isCheck(path):
		key = "check of " + host
		s.checks[host] = append(s.checks[host], time.Now())
		if answer = s.ready[host]; answer == nil {
			answer = alive(s.answers[host])
		}
	case req.Method == http.MethodPost:
		key = "canary of " + host
		body, _ := io.ReadAll(req.Body)
		s.tries[host] = append(s.tries[host], time.Now())
		s.bodies[host] = append(s.bodies[host], path+" "+string(body))
		if answer = s.chats[host]; answer == nil {
			answer = servesStatus(http.StatusNotFound)
		}
	default:
		s.scrapes[host] = append(s.scrapes[host], time.Now())
	}
	s.open[key]++
	s.most[key] = max(s.most[key], s.open[key])
	s.mu.Unlock()
	res, err := answer(req)
	if err != nil {
		s.closed(key)
		return nil, err
	}
	res.Body = &countedBody{ReadCloser: res.Body, closed: func() { s.closed(key) }}
	return res, nil
}

// alive answers checks of a server that answers anything at all.
func alive(answer func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		if _, err := answer(req); err != nil {
			return nil, err
		}
		return servesStatus(http.StatusOK)(req)
	}
}

func (s *servers) closed(host string) {
	s.mu.Lock()
	s.open[host]--
	s.mu.Unlock()
}

// count returns how often the address was scraped from the given moment on.
func (s *servers) count(address string, from time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, at := range s.scrapes[address] {
		if !at.Before(from) {
			n++
		}
	}
	return n
}

// tried returns how many canaries reached the address, checked how many readiness
// checks, and asked what the canaries were, with their paths.
func (s *servers) tried(address string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tries[address])
}

func (s *servers) checked(address string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.checks[address])
}

func (s *servers) asked(address string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies[address])
}

func (s *servers) stillOpen(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[key]
}

func (s *servers) mostOpen(address string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most[address]
}

type countedBody struct {
	io.ReadCloser
	once   sync.Once
	closed func()
}

func (b *countedBody) Close() error {
	b.once.Do(b.closed)
	return b.ReadCloser.Close()
}

// serves answers every scrape with the text.
func serves(text string) func(*http.Request) (*http.Response, error) {
	return servesAs("text/plain; version=0.0.4; charset=utf-8", text)
}

func servesAs(contentType, text string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK,
			Header:     http.Header{"Content-Type": {contentType}},
			Body:       io.NopCloser(strings.NewReader(text)),
		}, nil
	}
}

func servesStatus(code int) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody}, nil
	}
}

func fails(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// hangs accepts the request and never answers.
func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// drips sends the text one byte at a time, never idle for long.
func drips(text string, gap time.Duration) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{},
			Body: &drip{ctx: req.Context(), rest: text, gap: gap},
		}, nil
	}
}

type drip struct {
	ctx  context.Context
	rest string
	gap  time.Duration
}

func (d *drip) Read(p []byte) (int, error) {
	if d.rest == "" {
		return 0, io.EOF
	}
	select {
	case <-time.After(d.gap):
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
	n := copy(p[:1], d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (*drip) Close() error { return nil }

// load is a vLLM page with the given numbers.
func load(running, waiting int, kv float64) string {
	return fmt.Sprintf("vllm:num_requests_running{model_name=\"m\",engine=\"0\"} %d\n"+
		"vllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} %d\n"+
		"vllm:kv_cache_usage_perc{model_name=\"m\",engine=\"0\"} %g\n", running, waiting, kv)
}

// row returns the endpoint's row as GET /llmlb/pools shows it.
func row(t *testing.T, h *llmlb.Handle, address string) llmlb.EndpointStatus {
	t.Helper()
	for _, r := range h.Pool().Status(time.Now()).Endpoints {
		if r.Address == address {
			return r
		}
	}
	t.Fatalf("pool %q has no endpoint %s", h.Name(), address)
	panic("unreachable")
}

// recorded returns a log core and what was written to it, at the level that
// operators have.
func recorded() (zapcore.Core, *observer.ObservedLogs) { return observer.New(zap.InfoLevel) }

// lines returns the log as an operator would read it, without times.
func lines(logs *observer.ObservedLogs) []string {
	var list []string
	enc := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg", LevelKey: "level", EncodeLevel: zapcore.LowercaseLevelEncoder})
	for _, e := range logs.All() {
		b, err := enc.EncodeEntry(e.Entry, e.Context)
		if err != nil {
			panic(err)
		}
		list = append(list, strings.TrimSpace(b.String()))
	}
	return list
}

func count(list []string, part string) int {
	n := 0
	for _, l := range list {
		if strings.Contains(l, part) {
			n++
		}
	}
	return n
}
