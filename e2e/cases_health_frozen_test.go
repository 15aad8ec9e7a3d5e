package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// An engine is stuck: it accepts everything, its health page and its metrics are as
// ever, and nothing comes. Canaries find that out, be it idle or with requests that
// show nothing until they are done; those are answered by another server.
func TestFrozenEngineBehindAGreenHealthPage(t *testing.T) {
	for what, open := range map[string]int{"idle": 0, "with open requests that come whole": 3} {
		t.Run(what, func(t *testing.T) {
			a, b := newBackend(t), newBackend(t)
			lists(a, b)
			a.answers(frozen)
			a.set(load{running: float64(open)})
			b.set(load{kv: 0.97})
			g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%scanary 1s {\ntimeout 300ms\nfails 3\n}\n}\n", a.addr(), b.addr(), fast, named(a, b)))
			a.seen()
			b.seen()
			var all sync.WaitGroup
			for i := range open {
				all.Go(func() {
					if r := g.post(chat(false, "", fmt.Sprint("request ", i))); r.status != http.StatusOK || r.endpoint() != "b" {
						t.Errorf("status %d from %s: %s", r.status, r.endpoint(), r.body)
					}
				})
			}
			began := time.Now()
			eventually(t, "the server to be out", func() bool { return g.endpoint("a").State == "down" })
			// interval + timeout + (fails − 1) × max(timeout, min(interval, 5 s)), and
			// what a busy machine takes.
			if took, most := time.Since(began), 3300*time.Millisecond; took > most+10*time.Second {
				t.Errorf("out after %v, documented are %v", took, most)
			}
			all.Wait()
			r := g.endpoint("a")
			if r.Reason != "canary: no token within 300ms" {
				t.Errorf("row %+v", r)
			}
			if n := living(t, "a").Checks(llmlb.ReadinessCheck, llmlb.CheckFailed); n > 0 {
				t.Errorf("%d readiness checks failed: the page is green", n)
			}
			if r := g.post(chat(true, "", "afterwards")); r.status != http.StatusOK || r.endpoint() != "b" {
				t.Errorf("status %d from %s", r.status, r.endpoint())
			}
			a.answers(answer)
			eventually(t, "the server to be in use again", func() bool { return g.endpoint("a").State == "up" })
		})
	}
}

// An engine that answers wrongly is as bad as one that does not: what it generates
// is held against what the operator expects.
func TestEngineThatGeneratesNonsense(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	lists(a, b)
	say := func(text string) func(http.ResponseWriter, *http.Request, []byte) {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			send(w, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q}}]}`, text))
			send(w, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
			send(w, "[DONE]")
		}
	}
	a.answers(say("!!!!!!!!"))
	b.answers(say("The answer is 4."))
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%scanary 100ms {\nprompt \"What is 2 + 2?\"\nexpect 4\nmax_tokens 8\nfails 2\n}\n}\n", a.addr(), b.addr(), fast, named(a, b)))
	eventually(t, "the one that answers wrongly to be out", func() bool {
		return g.endpoint("a").State == "down" && g.endpoint("a").Reason == "canary: its answer is not the one expected"
	})
	if r := g.endpoint("b"); r.State != "up" {
		t.Errorf("row %+v", r)
	}
}

// A server whose first token comes ten times later than it used to, though nothing
// else runs there, gets less work and stays in use. It is well again when it is as
// fast as before.
func TestServerThatHasBecomeSlow(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	lists(a, b)
	var slow atomic.Bool
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if isCanary(r) {
			if time.Sleep(20 * time.Millisecond); slow.Load() {
				time.Sleep(time.Second)
			}
		}
		answer(w, r, body)
	})
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%scanary 50ms\nwarm_up off\n}\n", a.addr(), b.addr(), fast, named(a, b)))
	e := living(t, "a")
	passed := func() uint64 { return e.Checks(llmlb.CanaryCheck, llmlb.CheckPassed) }
	eventually(t, "a baseline", func() bool { return passed() >= 8 })
	if r := g.endpoint("a"); r.State != "up" || r.Share != 1 {
		t.Errorf("row %+v", r)
	}
	slow.Store(true)
	eventually(t, "the server to be degraded", func() bool { return g.endpoint("a").State == "degraded" })
	if r := g.endpoint("a"); r.Share != 0.25 || !strings.HasPrefix(r.Reason, "first token after 1") {
		t.Errorf("row %+v", r)
	}
	if r := g.post(chat(false, "", "hello")); r.status != http.StatusOK {
		t.Errorf("status %d", r.status)
	}
	slow.Store(false)
	eventually(t, "the server to be well", func() bool { return g.endpoint("a").State == "up" })
}
