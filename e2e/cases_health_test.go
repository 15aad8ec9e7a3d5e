package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// isCanary reports whether the gateway itself asks.
func isCanary(r *http.Request) bool { return r.UserAgent() == "caddy-llmlb" }

// oneModel is a list of the model that all requests of these tests name.
const oneModel = `{"object":"list","data":[{"id":"m","object":"model"}]}`

// lists has servers list the model, so that canaries know what to ask for.
func lists(servers ...*backend) {
	for _, b := range servers {
		b.mu.Lock()
		b.models = oneModel
		b.mu.Unlock()
	}
}

// never answers nothing until the client has left.
func never(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// frozen accepts everything and generates nothing.
func frozen(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() }

// living returns the endpoint behind a name.
func living(t testing.TB, name string) (found *llmlb.Endpoint) {
	t.Helper()
	llmlb.Pools(func(p *llmlb.Pool) {
		for _, e := range p.Endpoints() {
			if e.Name() == name {
				found = e
			}
		}
	})
	if found == nil {
		t.Fatalf("no endpoint named %q", name)
	}
	return found
}

// checked returns how many checks of a kind came to anything.
func checked(e *llmlb.Endpoint, k llmlb.CheckKind) (n uint64) {
	for _, v := range llmlb.CheckVerdicts() {
		n += e.Checks(k, v)
	}
	return n
}

// Servers whose slots are all taken answer their health page after five seconds or
// not at all. As long as they stream tokens none is taken out, no stream is cut, and
// what waits is served. When they stream nothing any more the same page counts.
func TestSaturatedServersStayInUse(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%sreadiness {\ninterval 50ms\ntimeout 200ms\nfails 3\n}\n"+
		"endpoint %s {\nname a\nmax_concurrent 5\n}\nendpoint %s {\nname b\nmax_concurrent 5\n}\n}\n", a.addr(), b.addr(), fast, a.addr(), b.addr()))
	var ended atomic.Bool
	for _, s := range []*backend{a, b} {
		s.set(load{running: 5})
		s.says(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(5 * time.Second):
			case <-r.Context().Done():
			}
		})
		s.answers(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := 0; i < 20 || !ended.Load(); i++ {
				send(w, answerEvents[1])
				time.Sleep(50 * time.Millisecond)
			}
			for _, e := range answerEvents[1:] {
				send(w, e)
			}
		})
	}
	var all sync.WaitGroup
	for i := range 12 { // two of them have to wait
		all.Go(func() {
			if r := g.post(chat(true, "", fmt.Sprint("stream ", i))); r.status != http.StatusOK || !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
				t.Errorf("status %d: %q", r.status, r.body)
			}
		})
	}
	together := []*llmlb.Endpoint{living(t, "a"), living(t, "b")}
	eventually(t, "ten checks of each to fail", func() bool {
		for _, e := range together {
			if state := g.endpoint(e.Name()).State; state == "down" {
				t.Fatalf("%s is down while it streams: %s", e.Name(), g.endpoint(e.Name()).Reason)
			}
		}
		return together[0].Checks(llmlb.ReadinessCheck, llmlb.CheckFailed) >= 10 && together[1].Checks(llmlb.ReadinessCheck, llmlb.CheckFailed) >= 10
	})
	ended.Store(true)
	all.Wait()
	eventually(t, "a server that generates nothing and answers no check to be out", func() bool {
		return g.endpoint("a").State == "down" && g.endpoint("a").Reason == "readiness: timeout after 200ms"
	})
}

// Canaries of a server that answers none of them in time: there is never more than
// one, none beside requests that succeed, each ends at its timeout, and none is
// counted as a user's.
func TestCanariesDoNotPileUp(t *testing.T) {
	a := newBackend(t)
	lists(a)
	var mu sync.Mutex
	var began, ended []time.Time
	var served time.Time // the last request, as its client saw it
	soon := 0            // canaries that came soon after
	tokens := make(map[string]bool)
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if !isCanary(r) {
			time.Sleep(50 * time.Millisecond)
			answer(w, r, body)
			return
		}
		mu.Lock()
		began = append(began, time.Now())
		if time.Since(served) < 300*time.Millisecond { // the gateway has seen it a little earlier
			soon++
		}
		tokens[string(body[strings.Index(string(body), `"max_tokens"`):])] = true
		mu.Unlock()
		select {
		case <-time.After(5 * time.Second):
		case <-r.Context().Done():
		}
		mu.Lock()
		ended = append(ended, time.Now())
		mu.Unlock()
	})
	const interval, timeout = 500 * time.Millisecond, 300 * time.Millisecond
	g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%scanary %v {\ntimeout %v\nfails 100\n}\n}\n", a.addr(), fast, named(a), interval, timeout))
	canaries := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(began)
	}
	const requests = 15
	for i := range requests {
		if r := g.post(chat(true, "", fmt.Sprint("request ", i))); r.status != http.StatusOK {
			t.Fatalf("status %d: %s", r.status, r.body)
		}
		mu.Lock()
		served = time.Now()
		mu.Unlock()
		time.Sleep(150 * time.Millisecond)
	}
	before := canaries()
	eventually(t, "canaries without traffic", func() bool { return canaries() >= before+5 })
	mu.Lock()
	defer mu.Unlock()
	if soon > 0 {
		t.Errorf("%d canaries beside requests that succeed", soon)
	}
	for i := range ended {
		if i+1 < len(began) {
			if apart := began[i+1].Sub(began[i]); apart < interval/2 {
				t.Errorf("two canaries within %v", apart)
			}
			if began[i+1].Before(ended[i]) {
				t.Error("two canaries at once")
			}
		}
		if took := ended[i].Sub(began[i]); took < timeout/2 || took > 3*time.Second {
			t.Errorf("a canary was aborted after %v, want %v", took, timeout)
		}
	}
	if len(tokens) != 1 || !tokens[`"max_tokens":1,"temperature":0,"stream":true}`] {
		t.Errorf("canaries ask for %v", tokens)
	}
	e := living(t, "a")
	if tokens, _, _ := e.TTFT.Snapshot(); e.Ended(llmlb.Served) != requests || tokens != requests {
		t.Errorf("%d served and %d first tokens, want %d: canaries are no users", e.Ended(llmlb.Served), tokens, requests)
	}
}

// A model that spends its token on thinking, one that refuses so few tokens, and
// one that generates nothing at all stay in use.
func TestCanaryThatCannotTell(t *testing.T) {
	for what, c := range map[string]struct {
		answer  func(w http.ResponseWriter)
		verdict llmlb.CheckVerdict
	}{
		"a reasoning model": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"length"}],"usage":{"completion_tokens":1}}`)
		}, llmlb.CheckPassed},
		"too few tokens": {func(w http.ResponseWriter) {
			http.Error(w, `{"error":{"message":"max_tokens reached"}}`, http.StatusBadRequest)
		}, llmlb.CheckUnsuitable},
		"an embedding model": {func(w http.ResponseWriter) {
			http.Error(w, `{"error":{"message":"The model does not support generate"}}`, http.StatusBadRequest)
		}, llmlb.CheckUnsuitable},
	} {
		t.Run(what, func(t *testing.T) {
			a := newBackend(t)
			lists(a)
			a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
				if isCanary(r) {
					c.answer(w)
					return
				}
				answer(w, r, body)
			})
			g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%scanary 50ms {\nfails 1\n}\n}\n", a.addr(), fast, named(a)))
			e := living(t, "a")
			eventually(t, "a verdict", func() bool { return e.Checks(llmlb.CanaryCheck, c.verdict) > 0 })
			if r := g.endpoint("a"); r.State != "up" {
				t.Errorf("row %+v", r)
			}
			if n := e.Checks(llmlb.CanaryCheck, llmlb.CheckFailed); n > 0 {
				t.Errorf("%d canaries failed", n)
			}
			if r := g.post(chat(false, "", "hello")); r.status != http.StatusOK {
				t.Errorf("status %d", r.status)
			}
		})
	}
}

// verdicts has a server answer its health page only as the test tells it, one letter
// at a time: F is 500, P is well.
type verdicts struct {
	t    *testing.T
	e    *llmlb.Endpoint
	next chan byte
	ctx  context.Context //nolint:containedctx // of the test
}

func stepped(t *testing.T, b *backend) *verdicts {
	s := &verdicts{t: t, next: make(chan byte), ctx: t.Context()}
	b.says(func(w http.ResponseWriter, r *http.Request) {
		select {
		case c := <-s.next:
			if c == 'F' {
				w.WriteHeader(http.StatusInternalServerError)
			}
		case <-r.Context().Done():
		case <-s.ctx.Done():
		}
	})
	return s
}

// step feeds one letter and waits until it counts.
func (s *verdicts) step(c byte) {
	s.t.Helper()
	want := checked(s.e, llmlb.ReadinessCheck) + 1
	select {
	case s.next <- c:
	case <-time.After(20 * time.Second):
		s.t.Fatal("no check in 20 s")
	}
	eventually(s.t, "the check to count", func() bool { return checked(s.e, llmlb.ReadinessCheck) >= want })
}

// Only failures in a row take a server out, and only passes in a row bring it back.
// One that goes to and fro troubles nobody else, and no client.
func TestFlappingServer(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	s := stepped(t, a)
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%sreadiness {\ninterval 20ms\ntimeout 1m\nfails 3\npasses 2\n}\n}\n", a.addr(), b.addr(), fast, named(a, b)))
	s.e = living(t, "a")
	states := ""
	for _, c := range []byte("FPFPFFPP" + "FFF" + "PFPP") {
		s.step(c)
		states += g.endpoint("a").State[:1]
		if r := g.post(chat(false, "", fmt.Sprint("after ", len(states)))); r.status != http.StatusOK {
			t.Errorf("status %d", r.status)
		}
		if r := g.endpoint("b"); r.State != "up" {
			t.Errorf("the other one is %s: %s", r.State, r.Reason)
		}
	}
	if want := "uuuuuuuu" + "uud" + "dddu"; states != want {
		t.Errorf("states %s, want %s", states, want)
	}
}
