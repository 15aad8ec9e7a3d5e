package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The gateway starts and serves with one server down and one name that does
// not resolve; the dead server joins when it comes up.
func TestStartsWithDeadServers(t *testing.T) {
	a := newBackend(t)
	dead := freeAddr(t)
	g := start(t, fmt.Sprintf("llm_proxy %s %s no-such-host.invalid:80 {\n%sendpoint %s {\nname late\n}\n}\n", a.addr(), dead, fast, dead))
	for i := range 10 {
		if r := g.post(distinct(i)); r.status != http.StatusOK {
			t.Fatalf("status %d: %s", r.status, r.body)
		}
	}
	eventually(t, "the dead server to be seen as down", func() bool { return g.endpoint("late").State == "down" })
	if reason := g.endpoint("late").Reason; !strings.Contains(reason, "refused") {
		t.Errorf("reason %q, want it to say that the connection was refused", reason)
	}

	l, err := net.Listen("tcp", dead)
	if err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	b := lateBackend(t, l)
	b.seen()
	eventually(t, "the server to be up", func() bool { return g.endpoint("late").State == "up" })
	a.set(load{kv: 0.97})
	a.seen()
	if r := g.post(distinct(99)); r.endpoint() != "late" {
		t.Errorf("went to %s, want the server that has come up", r.endpoint())
	}
}

// lateBackend starts a server on a listener that exists already.
func lateBackend(t *testing.T, l net.Listener) *backend {
	t.Helper()
	b := newBackendUnstarted(t)
	b.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: b}}
	b.Start()
	t.Cleanup(b.Close)
	return b
}

// Two unnamed blocks with different servers cannot share one pool.
func TestTwoUnnamedPoolsAreAnError(t *testing.T) {
	g := start(t, "respond ok\n")
	err := g.load("handle /a/* {\nllm_proxy 127.0.0.1:1\n}\nhandle {\nllm_proxy 127.0.0.1:2\n}\n")
	if err == nil || !strings.Contains(err.Error(), "pool") || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "127.0.0.1:2") {
		t.Errorf("error %v, want one that names both blocks and says to name their pools", err)
	}
	if err := g.load("handle /a/* {\nllm_proxy 127.0.0.1:1\n}\nhandle {\nllm_proxy 127.0.0.1:1\n}\n"); err != nil {
		t.Errorf("the same pool in two routes: %v", err)
	}
	if err := g.load("handle /a/* {\nllm_proxy 127.0.0.1:1\n}\nhandle {\nllm_proxy 127.0.0.1:2 {\npool other\n}\n}\n"); err != nil {
		t.Errorf("two named pools: %v", err)
	}
}
