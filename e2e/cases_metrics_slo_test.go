package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

// judged is how many requests had which result, without the zeros.
func (g *gateway) judged() map[string]int {
	g.t.Helper()
	n := make(map[string]int)
	for _, m := range g.families()["caddy_llmlb_slo_requests_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			if v := int(m.GetCounter().GetValue()); l.GetName() == "result" && v > 0 {
				n[l.GetValue()] += v
			}
		}
	}
	return n
}

// Goodput is what was served in time over all that was asked for: what was late, has
// failed or was turned away counts against it, and what was asked wrongly, or given
// up in good time, does not count.
func TestGoodput(t *testing.T) {
	// What is to be in time has all the time there is, what is to be late has none.
	const ample, none, late = time.Minute, 50 * time.Millisecond, 200 * time.Millisecond
	slow := func(pauses ...time.Duration) part { // before each token
		return func(w http.ResponseWriter, r *http.Request, _ []byte) {
			w.Header().Set("Content-Type", eventStream)
			_ = http.NewResponseController(w).Flush()
			send(w, answerEvents[0])
			for i, e := range answerEvents[1:] {
				if i < len(pauses) {
					select {
					case <-time.After(pauses[i]):
					case <-r.Context().Done():
						return
					}
				}
				send(w, e)
			}
		}
	}
	whole := func(after time.Duration, tokens int) part {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			time.Sleep(after)
			raw("application/json", fmt.Sprintf(`{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":%d}}`, tokens))(w, nil)
		}
	}
	for _, tc := range []struct {
		name       string
		ttft, tpot time.Duration
		answer     part
		body       string
		want       map[string]int
	}{
		{"in time", ample, ample, slow(), chat(true, "", "hi"), map[string]int{"met": 1}},
		{"a late first token", none, ample, slow(late), chat(true, "", "hi"), map[string]int{"ttft": 1}},
		{"slow tokens", ample, none, slow(0, late, late), chat(true, "", "hi"), map[string]int{"tpot": 1}},
		{"whole and in time", ample, ample, whole(0, 1), chat(false, "", "hi"), map[string]int{"met": 1}},
		{"whole and long", none, ample, whole(late, 100), chat(false, "", "hi"), map[string]int{"met": 1}},
		{"whole and late", none, none, whole(late, 1), chat(false, "", "hi"), map[string]int{"time": 1}},
		{"a broken engine", ample, ample, func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusInternalServerError) }, chat(true, "", "hi"), map[string]int{"failed": 1}},
		{"cut", ample, ample, plays(eventStream, events(answerEvents[:3]...), breaks), chat(true, "", "hi"), map[string]int{"failed": 1}},
		{"a mistake that the server tells of", ample, ample, func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusBadRequest) }, chat(true, "", "hi"), map[string]int{}},
		{"a mistake that the gateway tells of", ample, ample, answer, `{"model":"m","model":"m"}`, map[string]int{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newBackend(t)
			a.answers(tc.answer)
			g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%sslo ttft %v tpot %v\nretries 0\n}\n", a.addr(), fast, patient, tc.ttft, tc.tpot))
			_, _ = g.fetch(http.DefaultClient, chatPath, tc.body) // some are cut
			g.idle(t)
			eventually(t, "it to be counted", func() bool { return g.counter("caddy_llmlb_requests_total") == 1 })
			if got := g.judged(); !maps.Equal(got, tc.want) {
				t.Errorf("counted as %v, want %v", got, tc.want)
			}
		})
	}

	for _, tc := range []struct {
		name string
		ttft time.Duration
		want map[string]int
	}{
		{"turned away, and given up too late", none, map[string]int{"refused": 1, "ttft": 1}},
		{"turned away, and given up in time", ample, map[string]int{"refused": 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newBackend(t)
			a.answers(plays(eventStream, nil, falls))
			g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%sslo ttft %v tpot %v\nqueue 0\nendpoint %s {\nname a\nmax_concurrent 1\n}\n}\n", a.addr(), fast, patient, tc.ttft, ample, a.addr()))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chat(true, "", "hi")))
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if res, err := http.DefaultClient.Do(req); err == nil {
					res.Body.Close()
				}
			}()
			a.await("the request", func() bool { return a.open == 1 })
			g.post(chat(true, "", "one too many")).isError(t, http.StatusTooManyRequests)
			time.Sleep(late)
			leave()
			arrives(t, "the client's end", done)
			eventually(t, "both to be counted", func() bool { return g.counter("caddy_llmlb_requests_total") == 2 })
			if got := g.judged(); !maps.Equal(got, tc.want) {
				t.Errorf("counted as %v, want %v", got, tc.want)
			}
			for kind, want := range map[string]time.Duration{"ttft": tc.ttft, "tpot": ample} {
				if v := g.counter("caddy_llmlb_slo_seconds", "kind", kind); v != want.Seconds() {
					t.Errorf("the limit is shown as %v, want %v", v, want)
				}
			}
		})
	}
}

// The tokens of prompts are counted by whether the engine had them in its cache, and
// those of answers and the time between them as they come.
func TestTokensAndTheirPace(t *testing.T) {
	a := newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%sendpoint %s {\nname a\n}\n}\n", a.addr(), fast, patient, a.addr()))
	a.answers(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", eventStream)
		for _, e := range answerEvents[:4] {
			send(w, e)
			time.Sleep(30 * time.Millisecond)
		}
		send(w, answerEvents[4])
		send(w, `{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":32}}}`)
		send(w, "[DONE]")
	})
	if r := g.post(chat(true, "", "hi")); r.status != http.StatusOK {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	a.answers(answer)
	g.post(chat(false, "", "you")) // which tells nothing of its cache
	g.idle(t)
	for cache, want := range map[string]float64{"hit": 32, "miss": 18, "untold": 10} {
		if n := g.counter("caddy_llmlb_prompt_tokens_total", "endpoint", "a", "cache", cache); n != want {
			t.Errorf("%v tokens of prompts are %s, want %v", n, cache, want)
		}
	}
	if n := g.counter("caddy_llmlb_output_tokens_total", "endpoint", "a"); n != 4 {
		t.Errorf("%v tokens were generated, want 4", n)
	}
	if n, sum := g.histogram("caddy_llmlb_inter_token_seconds"); n != 2 || sum < 0.04 || sum > 20 {
		t.Errorf("%d gaps between tokens of %vs in all, want 2 of 30 ms or more", n, sum)
	}
}
