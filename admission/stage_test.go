package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
)

// stage is a handler before a proxy that a test plays, under a clock of its own.
type stage struct {
	t        *testing.T
	handler  *Handler
	pool     *llmlb.Pool
	settings *llmlb.Settings

	// attempt plays one attempt at an endpoint: it answers, or tells how it
	// failed.
	attempt func(a *played) *ending
	before  http.HandlerFunc // a handler in between
	begun   time.Time
	seen    []*played
	passes  int
}

// played is one attempt.
type played struct {
	n        int // from 1
	after    time.Duration
	endpoint *llmlb.Endpoint
	call     *llmlb.Call
	w        http.ResponseWriter
	r        *http.Request
	body     string
	path     string
}

// ending is how an attempt failed.
type ending struct {
	outcome llmlb.Outcome
	kept    *llmlb.Kept
}

func newStage(t *testing.T, h *Handler, endpoints ...string) *stage {
	t.Helper()
	s := &stage{t: t, handler: h, pool: llmlb.NewPool("test"), begun: time.Now()}
	s.settings = &llmlb.Settings{
		Pool: "test", Strategy: selection.StrategyWork, Affinity: llmlb.DefaultAffinity, MinTokens: llmlb.DefaultMinTokens,
		KVLimit: llmlb.DefaultKVLimit, Retries: 2,
		Scrape: llmlb.Scrape{Interval: llmlb.DefaultInterval, StaleAfter: llmlb.DefaultStaleAfter},
	}
	for _, name := range endpoints {
		s.settings.Members = append(s.settings.Members, llmlb.Member{Address: name + ":8000", Name: name})
	}
	if err := s.pool.Bind(s.settings); err != nil {
		t.Fatal(err)
	}
	s.pool.Start(s.settings, s.begun)
	h.logger, h.doubted, h.handle = zap.NewNop(), new(atomic.Bool), llmlb.NewHandle("test")
	h.provisionTenants()
	if err := h.provisionClasses(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	h.handle.Set(s.pool, s.settings)
	return s
}

func (s *stage) endpoint(name string) *llmlb.Endpoint {
	return s.settings.Member(name + ":8000").Endpoint
}

// ServeHTTP plays the proxy's loop with the policy and the transport.
func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	s.passes++
	c := llmlb.CallOf(r.Context())
	if s.before != nil {
		s.before(w, r)
	}
	body, _ := io.ReadAll(r.Body)
	failure := caddyhttp.Error(http.StatusServiceUnavailable, errors.New("no upstreams available"))
	for {
		if gone := r.Context().Err(); gone != nil {
			w.WriteHeader(statusClientGone)
			return nil
		}
		if selection.Grant(c, time.Now()) != selection.Granted {
			return failure
		}
		e := c.Lease.Endpoint()
		c.Begin(e, time.Now())
		a := &played{
			n: len(s.seen) + 1, after: time.Since(s.begun), endpoint: e, call: c,
			w: w, r: r, body: string(body), path: r.URL.Path,
		}
		s.seen = append(s.seen, a)
		end := s.attempt(a)
		switch {
		case end == nil:
			c.EndAttempt(time.Now(), llmlb.Served)
			return nil
		case end.outcome == llmlb.Overloaded:
			c.ExcludeBusy(e)
			e.NoteOverload(time.Now(), end.kept.RetryAfter)
		default:
			c.Exclude(e)
		}
		c.Keep(end.kept)
		c.EndAttempt(time.Now(), end.outcome)
		if end.outcome == llmlb.ClientGone {
			w.WriteHeader(statusClientGone)
			return nil
		}
		failure = caddyhttp.Error(http.StatusBadGateway, fmt.Errorf("dialing %s: connection refused", e.Address()))
	}
}

// post sends a chat request and returns the answer, how long it took, and what
// the handler returned.
func (s *stage) post(ctx context.Context, body string) (*http.Response, string, error) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(body)).WithContext(ctx)
	err := s.handler.ServeHTTP(w, r, s)
	resp := w.Result()
	s.calm()
	return resp, w.Body.String(), err
}

func (s *stage) took() time.Duration { return time.Since(s.begun) }

// calm checks that every reservation is given back.
func (s *stage) calm() {
	s.t.Helper()
	for _, e := range s.pool.Endpoints() {
		s.pool.Lock()
		prefill, decode := e.Ledger().OwnCalls()
		s.pool.Unlock()
		if prefill+decode != 0 {
			s.t.Errorf("%d calls are still reserved at %s", prefill+decode, e.Name())
		}
	}
	if n := turnsOf(s.pool).queue.Len(); n != 0 {
		s.t.Errorf("%d calls still wait", n)
	}
}

// busy is an overload answer.
func busy(retryAfter time.Duration) *ending {
	return &ending{llmlb.Overloaded, &llmlb.Kept{
		Outcome: llmlb.Overloaded, Status: http.StatusServiceUnavailable, RetryAfter: retryAfter,
		Header: http.Header{"Content-Type": {"application/problem+json"}, "X-Llm-Endpoint": {"a"}, "X-Llm-Attempts": {"1"}},
		Body:   []byte(`{"error":"queue  full"}`),
	}}
}

// broken is an answer of an engine that failed.
func broken() *ending {
	return &ending{llmlb.EngineError, &llmlb.Kept{
		Outcome: llmlb.EngineError, Status: http.StatusInternalServerError,
		Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte("CUDA error"),
	}}
}

func ok(a *played) {
	a.w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(a.w, `{"ok":true}`)
}

func wait(d time.Duration) *Queue { return &Queue{MaxWait: new(caddy.Duration(d))} }

// screen is a client's connection that remembers what was written when.
type screen struct {
	mu      sync.Mutex
	begun   time.Time
	header  http.Header
	sent    http.Header // the headers that went out
	status  int
	lines   []string // "<after> <text>"
	flushed int
	fail    error
	ended   bool
	after   int // writes after the end
}

func newScreen() *screen { return &screen{begun: time.Now(), header: make(http.Header)} }

func (s *screen) Header() http.Header { return s.header }

func (s *screen) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status == 0 {
		s.status, s.sent = status, s.header.Clone()
	}
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		s.after++
	}
	if s.status == 0 {
		s.status, s.sent = http.StatusOK, s.header.Clone()
	}
	if s.fail != nil {
		return 0, s.fail
	}
	s.lines = append(s.lines, fmt.Sprintf("%v %s", time.Since(s.begun), strings.TrimSpace(string(p))))
	return len(p), nil
}

func (s *screen) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushed = len(s.lines)
	return nil
}

// posting is a request as Caddy's server would hand it over.
func posting(t *testing.T, path, body string, header http.Header) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	maps.Copy(r.Header, header)
	return r
}
