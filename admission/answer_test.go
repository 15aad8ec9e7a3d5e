package admission

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const (
	roleChunk  = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	textChunk  = `{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}`
	stopChunk  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	usageChunk = `{"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":32}}}`
)

// Where headers are not held for the first token, or a heartbeat is set, the
// client sees early that its stream was accepted, whatever it says of compression
// and whatever the site does about it.
func TestStreamHeadersComeBeforeTheFirstEvent(t *testing.T) {
	ungated := site{proxy: object{"transport": object{"protocol": "llm", "first_token": "off"}}}
	beating := site{admission: object{"heartbeat": "200ms"}}
	encode := object{"handler": "encode", "encodings": object{"gzip": object{}, "zstd": object{}}, "prefer": []string{"gzip", "zstd"}}
	for _, site1 := range []struct {
		name   string
		site   site
		before []object
	}{
		{"plain site", ungated, nil},
		{"site with encode", ungated, []object{encode}},
		{"heartbeat", beating, nil},
		{"heartbeat with encode", beating, []object{encode}},
	} {
		for _, accept := range []string{"", "gzip"} {
			t.Run(site1.name+" accept "+accept, func(t *testing.T) {
				token := make(chan struct{})
				var once sync.Once
				release := func() { once.Do(func() { close(token) }) }
				defer release()
				e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
					if got := r.Header.Get("Accept-Encoding"); got != "identity" {
						t.Errorf("the engine may encode as %q", got)
					}
					sse(w)
					<-token
					sse(w, textChunk, "[DONE]")
				})
				s := site1.site
				s.upstreams, s.before = []string{e.address()}, site1.before
				g := start(t, s)
				req, err := http.NewRequest(http.MethodPost, "http://"+g.address+chatPath, strings.NewReader(streamed))
				if err != nil {
					t.Fatal(err)
				}
				if accept != "" {
					req.Header.Set("Accept-Encoding", accept)
				}
				resp, err := client(t).Do(req)
				if err != nil {
					t.Fatalf("no headers came while the engine had nothing to say: %v", err)
				}
				defer resp.Body.Close()
				named := resp.Header.Get("X-LLM-Endpoint") != ""
				if resp.StatusCode != http.StatusOK || named != (s.admission == nil) {
					t.Errorf("got %d with %v", resp.StatusCode, resp.Header)
				}
				release()
				if b, err := io.ReadAll(resp.Body); err != nil || accept == "" && !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
					t.Errorf("the stream was %q, %v", b, err)
				}
			})
		}
	}
}

// What the client and the access log learn of a served stream.
func TestServedStreamIsAccountedFor(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		sse(w, roleChunk, textChunk, stopChunk, usageChunk, "[DONE]")
	})
	g := start(t, site{
		upstreams: []string{e.address()},
		policy:    object{"endpoints": []object{{"upstream": e.address(), "name": "gpu-1"}}},
		proxy:     object{"headers": object{"response": object{"set": http.Header{"X-Served-By": {"{llm.endpoint}/{llm.decision}"}}}}},
	})
	resp, body := g.post(chatPath, streamed)
	if resp.StatusCode != http.StatusOK || strings.Count(body, "Hello") != 1 {
		t.Fatalf("got %d %q", resp.StatusCode, body)
	}
	for name, want := range map[string]string{
		"X-LLM-Endpoint": "gpu-1", "X-LLM-Decision": "only", "X-LLM-Matched-Tokens": "0", "X-LLM-Attempts": "1",
		"X-Served-By": "gpu-1/only",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	g.calm()
	endpoint := g.pool.Endpoints()[0]
	if n := endpoint.Ended(llmlb.Served); n != 1 {
		t.Errorf("%d attempts served, want 1", n)
	}
	entry := g.access()
	for name, want := range map[string]any{
		"llm_pool": g.pool.Name(), "llm_endpoint": "gpu-1", "llm_decision": "only", "llm_matched_tokens": 0.0, "llm_attempts": 1.0,
		"llm_model": "m", "llm_outcome": "served", "llm_prompt_tokens": 40.0, "llm_cached_tokens": 32.0, "llm_output_tokens": 1.0,
	} {
		if got := entry[name]; got != want {
			t.Errorf("the log's %s is %v, want %v", name, got, want)
		}
	}
	ttft, _ := entry["llm_ttft_ms"].(float64)
	if d, _ := entry["llm_duration"].(float64); ttft <= 0 || d <= 0 || ttft > d*1000 {
		t.Errorf("first token after %v ms of %v s", ttft, d)
	}
}

// The time to first token ends at content, not at a comment or a role.
func TestTimeToFirstTokenIsThatOfContent(t *testing.T) {
	const late = 60 * time.Millisecond
	for _, test := range []struct {
		name, chunk string
		sample      bool
	}{
		{"content", textChunk, true},
		{"a tool call", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c"}]}}]}`, true},
		{"reasoning", `{"choices":[{"delta":{"reasoning_content":"hm"}}]}`, true},
		{"nothing", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
				sse(w)
				_, _ = io.WriteString(w, ": ping\n\n")
				sse(w, roleChunk)
				time.Sleep(late)
				if test.chunk == "" {
					panic(http.ErrAbortHandler)
				}
				sse(w, test.chunk, stopChunk, "[DONE]")
			})
			g := start(t, site{upstreams: []string{e.address()}})
			resp, err := client(t).Post("http://"+g.address+chatPath, "application/json", strings.NewReader(streamed))
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err != nil || (resp.StatusCode == http.StatusOK) != test.sample {
				t.Errorf("the answer was %d and ended with %v", resp.StatusCode, err)
			}
			g.calm()
			endpoint := g.pool.Endpoints()[0]
			g.pool.Lock()
			ttft, known := endpoint.RecentTTFT(time.Now())
			g.pool.Unlock()
			if known != test.sample || known && ttft < late {
				t.Errorf("time to first token %v (%v), want at least %v (%v)", ttft, known, late, test.sample)
			}
			if !test.sample && endpoint.Ended(llmlb.EngineError) != 1 {
				t.Error("the attempt without a token is not counted as the engine's error")
			}
		})
	}
}

// Each ending of a request is told as what it was, and leaves no reservation.
func TestEveryEndingIsToldAsWhatItWas(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"error":{"message":"x"}}`)
		}
	}
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		body   string
		status int
		want   llmlb.Outcome
	}{
		{"a whole answer", nil, plain, 200, llmlb.Served},
		{"a stream", func(w http.ResponseWriter, _ *http.Request) { sse(w, textChunk, "[DONE]") }, streamed, 200, llmlb.Served},
		{"the client's mistake", status(400), plain, 400, llmlb.Served},
		{"unknown model", status(404), plain, 404, llmlb.Served},
		{"too many requests", status(429), plain, 429, llmlb.Overloaded},
		{"queue full", status(503), streamed, 503, llmlb.Overloaded},
		{"a broken engine", status(500), plain, 500, llmlb.EngineError},
		{"a connection that breaks", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, plain, 502, llmlb.EngineError},
		{"a stream without end marker", func(w http.ResponseWriter, _ *http.Request) { sse(w, textChunk) }, streamed, 200, llmlb.Truncated},
		{"an error in the stream", func(w http.ResponseWriter, _ *http.Request) {
			sse(w, textChunk, `{"error":{"message":"boom","code":500}}`)
		}, streamed, 200, llmlb.EngineError},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := newEngine(t, test.answer)
			g := start(t, site{upstreams: []string{e.address()}, admission: object{"queue": object{"max_wait": 0}}})
			resp, err := client(t).Post("http://"+g.address+chatPath, "application/json", strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != test.status {
				t.Errorf("got %d %s, want %d", resp.StatusCode, body, test.status)
			}
			if (err == nil) != (test.want != llmlb.Truncated) {
				t.Errorf("the answer ended with %v", err)
			}
			if test.status == 429 && resp.Header.Get("Retry-After") != "7" {
				t.Error("the engine's Retry-After is lost")
			}
			g.calm()
			if n := g.pool.Endpoints()[0].Ended(test.want); n != 1 {
				t.Errorf("%d attempts are counted as %v, want 1", n, test.want)
			}
			if seen, _ := e.requests(); len(seen) != 1 {
				t.Errorf("the engine got the request %d times", len(seen))
			}
			if got := g.access()["llm_outcome"]; got != test.want.String() {
				t.Errorf("logged as %v", got)
			}
		})
	}
}

// Clients leave at any moment; nothing of them stays, and nobody is blamed.
func TestClientsThatLeaveFreeEverything(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		sse(w)
		for i := 0; ; i++ {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(time.Millisecond):
				sse(w, textChunk)
			}
		}
	})
	g := start(t, site{upstreams: []string{e.address()}})
	var wg sync.WaitGroup
	const clients = 40
	for i := range clients {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.address+chatPath, strings.NewReader(streamed))
			resp, err := client(t).Do(req)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	g.calm()
	endpoint := g.pool.Endpoints()[0]
	for _, o := range llmlb.Outcomes() {
		if n := endpoint.Ended(o); n > 0 && o != llmlb.ClientGone {
			t.Errorf("%d attempts are counted as %v", n, o)
		}
	}
}

// A server that is gone is passed over, and the client never learns.
func TestRefusedConnectionGoesElsewhereWithTheWholeBody(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{nobody(t), e.address()}})
	for range 6 {
		if resp, body := g.post(chatPath, sized(70_000)); resp.StatusCode != http.StatusOK {
			t.Fatalf("got %d %s", resp.StatusCode, body)
		}
	}
	if _, got := e.requests(); len(got) != 6 || len(got[5]) != 70_000 {
		t.Errorf("the living engine got %d requests", len(got))
	}
	g.calm()
}

// nobody is a loopback address on which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// At the limit, where nothing may wait, the client is told at once, when to come back and which option it
// is; what generates nothing is not held up by what does.
func TestFullPoolAnswers429(t *testing.T) {
	busy, done := make(chan struct{}), make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		busy <- struct{}{}
		<-done
	})
	g := start(t, site{
		upstreams: []string{e.address()},
		admission: object{"queue": object{"max_wait": 0}},
		policy:    object{"endpoints": []object{{"upstream": e.address(), "max_concurrent": 1}}},
	})
	first := make(chan int)
	go func() {
		resp, err := http.Post("http://"+g.address+chatPath, "application/json", strings.NewReader(plain))
		if err != nil {
			first <- 0
			return
		}
		resp.Body.Close()
		first <- resp.StatusCode
	}()
	<-busy
	resp, body := g.post(chatPath, plain)
	if message := wantError(t, resp, body, http.StatusTooManyRequests, "at_capacity"); !strings.Contains(message, "max_concurrent") {
		t.Errorf("%q does not name the option", message)
	}
	if got := resp.Header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After is %q", got)
	}
	close(done)
	if got := <-first; got != http.StatusOK {
		t.Errorf("the first request got %d", got)
	}
	g.calm()
}

// With everything drained, and nobody who may wait for better times, the answer
// is that there is no server.
func TestNoEndpointAnswers503(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{
		upstreams: []string{e.address()},
		admission: object{"queue": object{"max_wait": 0}},
		policy:    object{"endpoints": []object{{"upstream": e.address(), "drain": true}}},
	})
	for _, r := range []struct{ method, path string }{{"POST", chatPath}, {"GET", "/v1/models"}} {
		resp, body := g.do(r.method, r.path, strings.NewReader(plain), nil)
		wantError(t, resp, body, http.StatusServiceUnavailable, "no_endpoint")
		if resp.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	if seen, _ := e.requests(); len(seen) > 0 {
		t.Error("a draining server got a request")
	}
}

// The site's own error pages may answer instead.
func TestErrorsMayBeLeftToTheSite(t *testing.T) {
	g := start(t, site{
		upstreams: []string{nobody(t)},
		admission: object{"errors": "pass", "queue": object{"max_wait": 0}},
		errors:    []object{{"handler": "static_response", "body": "site: {llm.error} {http.error.status_code}", "status_code": "{http.error.status_code}"}},
	})
	for _, test := range []struct{ path, want string }{
		{"/flush_cache", "site: path_not_served 404"},
		{chatPath, "site: upstream_error 502"},
	} {
		if _, body := g.post(test.path, plain); body != test.want {
			t.Errorf("%s: got %q, want %q", test.path, body, test.want)
		}
	}
	resp, _ := g.raw("POST /flush_cache HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(plain))
	if !resp.Close {
		t.Error("the connection stays open for a body that was not read")
	}
}

// A handler whose pool nobody registered answers, and the log says what is
// missing.
func TestPoolWithoutPolicyAnswers503(t *testing.T) {
	h := &Handler{handle: llmlb.NewHandle("chat"), logger: zap.NewNop()}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(plain))
	if err := h.ServeHTTP(w, r, nil); err != nil {
		t.Fatal(err)
	}
	wantError(t, w.Result(), w.Body.String(), http.StatusServiceUnavailable, "no_endpoint")
}
