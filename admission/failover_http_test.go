package admission

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// refusing is an engine that has too much to do.
func refusing(status int, retryAfter, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.Header().Set("Content-Type", "application/json; engine=1")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// A queue that is full is no fault: its answer is passed on, the engine is not
// taken out, and the call that comes when it has room again is served.
func TestFullEngineIsAskedAgain(t *testing.T) {
	const full = `{"error": {"message":"queue full"} }`
	const most = 10
	var n atomic.Int32
	all := make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if i := n.Add(1); i <= most {
			if i == most {
				close(all)
			}
			<-all // none of them knows of the others' fate
			refusing(503, "1", full)(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"ok":true}`)
	})
	g := start(t, site{upstreams: []string{e.address()}, noRetries: true})
	var wg sync.WaitGroup
	for range most {
		wg.Go(func() {
			resp, err := http.Post("http://"+g.address+chatPath, "application/json", strings.NewReader(streamed))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusServiceUnavailable || string(b) != full || resp.Header.Get("Retry-After") != "1" ||
				resp.Header.Get("Content-Type") != "application/json; engine=1" || resp.Header.Get("X-LLM-Endpoint") == "" {
				t.Errorf("got %d %q with %v", resp.StatusCode, b, resp.Header)
			}
		})
	}
	wg.Wait()
	begun := time.Now()
	resp, body := g.post(chatPath, plain)
	if took := time.Since(begun); resp.StatusCode != http.StatusOK || took > 3*time.Second {
		t.Errorf("got %d %s after %v", resp.StatusCode, body, took)
	}
	g.calm()
}

// When both refuse, the client gets one of their answers, with the time when the
// first of them takes work again.
func TestBothEnginesRefuse(t *testing.T) {
	a := newEngine(t, refusing(429, "9", `{"who":"a"}`))
	b := newEngine(t, refusing(503, "4", `{"who":"b"}`))
	g := start(t, site{upstreams: []string{a.address(), b.address()}, admission: object{"queue": object{"max_wait": "1s"}}})
	resp, body := g.post(chatPath, streamed)
	want := map[int]string{429: `{"who":"a"}`, 503: `{"who":"b"}`}[resp.StatusCode]
	if body != want || resp.Header.Get("Retry-After") != "4" || resp.Header.Get("X-LLM-Attempts") != "2" {
		t.Errorf("got %d %s with %v", resp.StatusCode, body, resp.Header)
	}
	// Nobody asks them in the meantime.
	resp, body = g.post(chatPath, streamed)
	wantError(t, resp, body, http.StatusTooManyRequests, "overloaded")
	if got := resp.Header.Get("Retry-After"); got != "4" && got != "3" {
		t.Errorf("Retry-After is %q", got)
	}
	seenA, _ := a.requests()
	seenB, _ := b.requests()
	if len(seenA)+len(seenB) != 2 {
		t.Errorf("the engines got %d and %d requests", len(seenA), len(seenB))
	}
	g.calm()
}

// A client that is kept company does not see that its call was moved.
func TestFailoverBehindTheHeartbeat(t *testing.T) {
	const events = "data: " + textChunk + "\n\ndata: " + stopChunk + "\n\ndata: [DONE]\n\n"
	var first atomic.Bool
	answer := func(w http.ResponseWriter, r *http.Request) {
		if first.CompareAndSwap(false, true) {
			sse(w, roleChunk) // and no word more
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events)
	}
	a, b := newEngine(t, answer), newEngine(t, answer)
	g := start(t, site{
		upstreams: []string{a.address(), b.address()}, admission: object{"heartbeat": "50ms"},
		proxy: object{"transport": object{"protocol": "llm", "first_token_min": "250ms", "first_token_max": "250ms"}},
	})
	resp, body := g.post(chatPath, streamed)
	rest := strings.TrimLeft(strings.ReplaceAll(body, beat+"\n\n", ""), "\n")
	if resp.StatusCode != http.StatusOK || rest != events || !strings.HasPrefix(body, beat) {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
	g.calm()
	if entry := g.access(); entry["llm_attempts"] != 2.0 || entry["llm_outcome"] != "served" {
		t.Errorf("logged as %v after %v attempts", entry["llm_outcome"], entry["llm_attempts"])
	}
}

// With usage inject the log has the engine's own counts, and the client the
// stream that it asked for.
func TestInjectedUsageStaysHere(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		sse(w, textChunk, stopChunk, usageChunk, "[DONE]")
	})
	g := start(t, site{upstreams: []string{e.address()}, admission: object{"usage": "inject"}})
	_, body := g.post(chatPath, streamed)
	if want := "data: " + textChunk + "\n\ndata: " + stopChunk + "\n\ndata: [DONE]\n\n"; body != want {
		t.Errorf("the client got %q", body)
	}
	g.calm()
	if entry := g.access(); entry["llm_prompt_tokens"] != 40.0 || entry["llm_cached_tokens"] != 32.0 {
		t.Errorf("logged with %v prompt tokens", entry["llm_prompt_tokens"])
	}
}

// Clients leave at any moment, while they are kept company, while they wait and
// while events come. Nothing of them stays.
func TestClientsThatLeaveAmidBeats(t *testing.T) {
	var n atomic.Int32
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) % 4 {
		case 0:
			refusing(503, "0", "{}")(w, r)
		case 1:
			sse(w, textChunk)
			<-r.Context().Done()
		default:
			select {
			case <-r.Context().Done():
			case <-time.After(90 * time.Millisecond):
				sse(w, textChunk, stopChunk, "[DONE]")
			}
		}
	})
	g := start(t, site{upstreams: []string{e.address()}, admission: object{"heartbeat": "50ms"}})
	var wg sync.WaitGroup
	const clients = 100
	for i := range clients {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+2*i)*time.Millisecond)
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
	_, entries := g.logged(1)
	for _, entry := range entries {
		if s := entry["status"]; s == 0.0 || s == 502.0 {
			t.Errorf("logged with status %v: %v", s, entry["llm_outcome"])
		}
	}
	if n := g.pool.Endpoints()[0].Ended(llmlb.Unreachable); n > 0 {
		t.Errorf("%d attempts are counted as unreachable", n)
	}
}
