package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A server that loads its model says so on its health page, and 503 to everything
// else but its list of models. No client notices, the table says what it does, and
// it is in use with the first check that passes.
func TestServerThatLoadsItsModel(t *testing.T) {
	g, a, b := pair(t, "readiness {\ninterval 5s\n}\n")
	lists(a, b)
	var loaded atomic.Bool
	a.says(func(w http.ResponseWriter, _ *http.Request) {
		if !loaded.Load() {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"status":"loading model"}`)
		}
	})
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if !loaded.Load() {
			http.Error(w, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, http.StatusServiceUnavailable)
			return
		}
		answer(w, r, body)
	})
	e := living(t, "a")
	for i := 0; e.Checks(llmlb.ReadinessCheck, llmlb.CheckLoading) < 3; i++ {
		if r := g.post(chat(false, "", fmt.Sprint("request ", i))); r.status != http.StatusOK {
			t.Fatalf("status %d while one server loads: %s", r.status, r.body)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if r := g.endpoint("a"); r.State != "starting" || r.Reason != "loading its model" {
		t.Errorf("row %+v", r)
	}
	refused := a.count()
	for i := range 20 {
		if r := g.post(chat(false, "", fmt.Sprint("later ", i))); r.status != http.StatusOK || r.endpoint() != "b" {
			t.Errorf("status %d from %s", r.status, r.endpoint())
		}
	}
	if n := a.count(); n != refused {
		t.Errorf("%d requests were sent to a server that loads", n-refused)
	}
	loaded.Store(true)
	ready := time.Now()
	eventually(t, "the server to be up", func() bool { return g.endpoint("a").State == "up" })
	if took := time.Since(ready); took > 4*time.Second {
		t.Errorf("up after %v: it is asked once a second while it loads", took)
	}
	if n := e.Checks(llmlb.ReadinessCheck, llmlb.CheckFailed) + e.Checks(llmlb.ReadinessCheck, llmlb.CheckNotReady); n > 0 {
		t.Errorf("%d failures: that it loads is none", n)
	}
}

// One pool in three routes, its health on another port: all is well, and the server
// is asked once per interval and not three times.
func TestHealthOnAnotherPort(t *testing.T) {
	a, health := newBackend(t), newBackend(t)
	_, port, _ := strings.Cut(health.addr(), ":")
	block := fmt.Sprintf("llm_proxy %s {\npool shared\n%s%sreadiness :%s/health {\ninterval 200ms\n}\n}\n", a.addr(), fast, named(a), port)
	g := start(t, "handle /one/* {\nuri strip_prefix /one\n"+block+"}\nhandle /two/* {\nuri strip_prefix /two\n"+block+"}\nhandle {\n"+block+"}\n")
	e := living(t, "a")
	eventually(t, "the first check", func() bool { return checked(e, llmlb.ReadinessCheck) > 0 })
	health.mu.Lock()
	before := health.checks
	health.mu.Unlock()
	began := time.Now()
	time.Sleep(2 * time.Second)
	health.mu.Lock()
	n := health.checks - before
	health.mu.Unlock()
	if most := int(time.Since(began)/(200*time.Millisecond)) + 1; n < 2 || n > most {
		t.Errorf("asked %d times, want %d at most", n, most)
	}
	a.mu.Lock()
	if a.checks > 0 {
		t.Error("asked at the server's own port too")
	}
	a.mu.Unlock()
	if r := g.endpoint("a"); r.State != "up" {
		t.Errorf("row %+v", r)
	}
	for _, path := range []string{"/one/v1/chat/completions", "/two/v1/chat/completions", "/v1/chat/completions"} {
		if r := g.send(path, strings.NewReader(chat(false, "", path))); r.status != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, r.status, r.body)
		}
	}
}

// Thirty reloads, each while a check is under way: none counts as a failure.
func TestReloadsUnderChecks(t *testing.T) {
	a := newBackend(t)
	a.says(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(150 * time.Millisecond):
		case <-r.Context().Done():
		}
	})
	site := func(i int) string {
		return fmt.Sprintf("llm_proxy %s {\n%s%sreadiness {\ninterval 100ms\ntimeout 20s\nfails 2\n}\nspill_waiting %d\n}\n", a.addr(), fast, named(a), 3+i%2)
	}
	g := start(t, site(0))
	e := living(t, "a")
	for i := range 30 {
		if err := g.load(site(i + 1)); err != nil {
			t.Fatal(err)
		}
		if r := g.endpoint("a"); r.State != "up" {
			t.Fatalf("after reload %d: %+v", i+1, r)
		}
		time.Sleep(100 * time.Millisecond)
	}
	eventually(t, "checks that pass", func() bool { return e.Checks(llmlb.ReadinessCheck, llmlb.CheckPassed) >= 5 })
	if n := e.Checks(llmlb.ReadinessCheck, llmlb.CheckFailed); n > 0 {
		t.Errorf("%d checks failed", n)
	}
	if living(t, "a") != e {
		t.Error("another endpoint has taken its place")
	}
}

// What a gateway does that has just started, and knows nothing yet: with initial
// must_pass a server that hangs gets nothing; without, nobody is refused.
func TestBeforeTheFirstCheck(t *testing.T) {
	t.Run("must_pass", func(t *testing.T) {
		a, b := newBackend(t), newBackend(t)
		b.says(never)
		b.answers(frozen)
		g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%sinitial must_pass\n}\n", a.addr(), b.addr(), fast, named(a, b)))
		served := burst(g, 20, func(i int) string { return chat(false, "", fmt.Sprint("request ", i)) })
		if served["a"] != 20 || b.count() > 0 {
			t.Errorf("served %v, %d reached the one that hangs", served, b.count())
		}
		if r := g.endpoint("b"); r.State != "starting" {
			t.Errorf("row %+v", r)
		}
	})
	t.Run("usable", func(t *testing.T) {
		a, b := newBackend(t), newBackend(t)
		a.says(never)
		b.says(never)
		g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s}\n", a.addr(), b.addr(), fast, named(a, b)))
		burst(g, 20, func(i int) string { return chat(false, "", fmt.Sprint("request ", i)) })
	})
}
