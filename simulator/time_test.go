package simulator

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// clocked is a response that notes when each flush came.
type clocked struct {
	*httptest.ResponseRecorder
	flushed []time.Time
}

func (c *clocked) Flush() { c.flushed = append(c.flushed, time.Now()) }

// provision makes a handler whose server lives as long as the test, without a
// network, so that it can run on a fake clock.
func provision(t *testing.T, h *Handler) *Handler {
	t.Helper()
	if err := h.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// serve runs one request to its end and returns the response.
func serve(t *testing.T, h *Handler, ctx context.Context, path, body string) *clocked {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	w := &clocked{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	if err := h.ServeHTTP(w, r, nil); err != nil {
		t.Error(err)
	}
	return w
}

func gauges(t *testing.T, h *Handler) (running, waiting, kv float64) {
	t.Helper()
	f := parse(t, serve(t, h, t.Context(), "/metrics", "").Body.Bytes())
	return value(t, f, "vllm:num_requests_running"), value(t, f, "vllm:num_requests_waiting"), value(t, f, "vllm:kv_cache_usage_perc")
}

// Tokens arrive when the engine model says they do, divided by the speed.
func TestRealTime(t *testing.T) {
	for _, speed := range []float64{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			h := provision(t, &Handler{Name: "clock", Speed: speed})
			cfg, _ := engine.Preset(defaultEngine)
			model, err := engine.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := model.Add(0, engine.Request{Input: 5000, Output: 4}); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			w := serve(t, h, t.Context(), "/v1/completions", `{"prompt":"`+strings.Repeat("word", 5000)+`","max_tokens":4,"stream":true}`)
			at := engine.APIOverhead
			// Headers come when the API server is through, then one flush per
			// token, then the end.
			if len(w.flushed) != 1+4+1 || w.flushed[0].Sub(begin) != time.Duration(float64(at)/speed) {
				t.Fatalf("flushed at %v from %v", w.flushed, begin)
			}
			for i, f := range w.flushed[1:5] {
				step, _ := model.Begin(at)
				model.End(nil)
				at += step.Duration
				want := time.Duration(float64(at) / speed)
				if diff := (f.Sub(begin) - want).Abs(); diff > 10*time.Nanosecond {
					t.Errorf("speed %v: token %d after %v, want %v", speed, i, f.Sub(begin), want)
				}
			}
			if n := len(readStream(t, w.Body)); n != 5 {
				t.Errorf("%d chunks, want 5", n)
			}
		})
	}
}

// A prompt that repeats an earlier one skips what the cache holds: it is
// faster and says how many tokens it found.
func TestPrefixIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := provision(t, &Handler{Name: "warm"})
		preamble := strings.Repeat("all that was said before, ", 2000)
		took := make([]time.Duration, 3)
		cached := make([]int, 3)
		salts := []string{"a", "a", "b"}
		for i := range took {
			begin := time.Now()
			w := serve(t, h, t.Context(), "/v1/chat/completions",
				`{"messages":[{"role":"system","content":"`+preamble+`"},{"role":"user","content":"question"}],"max_tokens":1,"cache_salt":"`+salts[i]+`"}`)
			took[i] = time.Since(begin)
			cached[i] = decode(t, w.Body.Bytes()).Usage.Details.CachedTokens
		}
		if cached[0] != 0 || cached[1] < 12_900 || cached[2] != 0 {
			t.Errorf("cached tokens %v, want none, nearly all, and none with another salt", cached)
		}
		if took[1] > took[0]/5 || took[2] != took[0] {
			t.Errorf("took %v", took)
		}
	})
}

// The next turn of a conversation finds its own history, with the answer.
func TestNextTurnFindsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := provision(t, &Handler{Name: "turns"})
		first := `{"role":"user","content":"tell me something long"}`
		c := decode(t, serve(t, h, t.Context(), "/v1/chat/completions", `{"messages":[`+first+`],"max_tokens":800}`).Body.Bytes())
		reply := `{"role":"assistant","content":"` + c.Choices[0].Message.Content + `"}`
		c = decode(t, serve(t, h, t.Context(), "/v1/chat/completions",
			`{"messages":[`+first+`,`+reply+`,{"role":"user","content":"more"}],"max_tokens":1}`).Body.Bytes())
		if got := c.Usage.Details.CachedTokens; got < 784 {
			t.Errorf("%d of over 800 tokens were cached", got)
		}
	})
}

// A client that leaves frees its sequence at once: before the engine has it,
// waiting, in prefill, while decoding, streamed or not.
func TestDisconnectFrees(t *testing.T) {
	long := strings.Repeat("word", 30_000) // some 1.5 s of prefill
	for _, tc := range []struct {
		name, body       string
		after            time.Duration
		running, waiting float64
	}{
		{"in the API server", `{"prompt":"x","max_tokens":1000}`, 5 * time.Millisecond, 1, 0},
		{"waiting", `{"prompt":"x","max_tokens":1000,"stream":true}`, 100 * time.Millisecond, 1, 1},
		{"in prefill", `{"prompt":"` + long + `","max_tokens":9,"stream":true}`, 100 * time.Millisecond, 2, 0},
		{"decoding", `{"prompt":"x","max_tokens":1000,"stream":true}`, time.Second, 2, 0},
		{"not streamed", `{"prompt":"x","max_tokens":1000}`, time.Second, 2, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &Handler{Name: "leave", MaxSeqs: 2}
				if tc.waiting > 0 {
					h.MaxSeqs = 1
				}
				provision(t, h)
				other := make(chan *clocked, 1)
				go func() {
					other <- serve(t, h, t.Context(), "/v1/completions", `{"prompt":"y","max_tokens":2000,"stream":true}`)
				}()
				time.Sleep(50 * time.Millisecond)
				ctx, leave := context.WithCancel(t.Context())
				gone := make(chan struct{})
				go func() { serve(t, h, ctx, "/v1/completions", tc.body); close(gone) }()
				time.Sleep(tc.after)
				if running, waiting, _ := gauges(t, h); running != tc.running || waiting != tc.waiting {
					t.Fatalf("before: %v running, %v waiting", running, waiting)
				}
				leave()
				<-gone
				if running, waiting, kv := gauges(t, h); running != 1 || waiting != 0 || kv > 0.01 {
					t.Errorf("after: %v running, %v waiting, kv %v", running, waiting, kv)
				}
				// The one that stayed lost nothing.
				if text := textOf(readStream(t, (<-other).Body)); len(text) != 2000*bytesPerToken {
					t.Errorf("the other stream has %d bytes", len(text))
				}
				f := parse(t, serve(t, h, t.Context(), "/metrics", "").Body.Bytes())
				aborted := value(t, f, "vllm:request_success_total", "finished_reason", "abort")
				if want := min(1, tc.running+tc.waiting-1); aborted != want {
					t.Errorf("%v aborts counted, want %v", aborted, want)
				}
			})
		})
	}
}

// A server that is idle, and one that was only validated, has no goroutine.
// Bubbles of synctest fail when one is left behind.
func TestNothingRunsWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{Name: "idle"}
		if err := h.Provision(caddy.Context{}); err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer leave()
		serve(t, h, ctx, "/v1/completions", `{"prompt":"`+strings.Repeat("word", 100_000)+`"}`)
		// The client left amid a prefill of many seconds. The last reference
		// cuts that short.
		begin := time.Now()
		if err := h.Cleanup(); err != nil {
			t.Fatal(err)
		}
		h.server.mu.Lock()
		defer h.server.mu.Unlock()
		if h.server.driver != nil || time.Since(begin) > 0 {
			t.Errorf("after %v the driver still ran: %v", time.Since(begin), h.server.driver != nil)
		}
	})
}

// Thirty requests at once on a server with few slots wait their turn and all
// get their answer.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := provision(t, &Handler{Name: "queue", MaxSeqs: 4})
		texts := make(chan int, 30)
		for range cap(texts) {
			go func() {
				w := serve(t, h, t.Context(), "/v1/completions", `{"prompt":"same","max_tokens":50,"stream":true}`)
				texts <- len(textOf(readStream(t, w.Body)))
			}()
		}
		time.Sleep(100 * time.Millisecond)
		if running, waiting, _ := gauges(t, h); running != 4 || waiting != 26 {
			t.Errorf("%v running, %v waiting", running, waiting)
		}
		for range cap(texts) {
			if n := <-texts; n != 50*bytesPerToken {
				t.Errorf("an answer of %d bytes", n)
			}
		}
	})
}
