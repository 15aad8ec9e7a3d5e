package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// ready is how the servers of these tests are asked, often enough to wait for.
const ready = "readiness /health {\ninterval 50ms\ntimeout 1s\nfails 2\npasses 2\n}\n"

// saying starts a server that answers the question whether it is ready as told.
func saying(t *testing.T, health http.HandlerFunc) *backend {
	t.Helper()
	b := newBackendUnstarted(t)
	b.Server = &httptest.Server{Listener: listen(t), Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			health(w, r)
			return
		}
		b.ServeHTTP(w, r)
	})}}
	b.Start()
	t.Cleanup(b.Close)
	return b
}

func fine(http.ResponseWriter, *http.Request) {}

// switched is a server that is well, or not, as the test says.
func switched(t *testing.T) (b *backend, ill *atomic.Bool) {
	t.Helper()
	ill = new(atomic.Bool)
	return saying(t, func(w http.ResponseWriter, _ *http.Request) {
		if ill.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}), ill
}

// A gateway starts beside a server that hangs. Where servers must pass a check
// before they get anything, all requests of the first moments wait for the one that
// does, and none goes to the other.
func TestNothingBeforeTheFirstCheckWhereItMustPass(t *testing.T) {
	a := saying(t, fine)
	b := saying(t, hangs)
	b.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) { hangs(w, r) })
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s%sinitial must_pass\n%s}\n", a.addr(), b.addr(), fast, patient, ready, named(a, b)))
	list := make([]<-chan reply, 20)
	for i := range list {
		list[i] = g.later(t, distinct(i))
		time.Sleep(15 * time.Millisecond) // all within the first 300 ms
	}
	for i, done := range list {
		if r := arrives(t, "an answer", done); r.status != http.StatusOK || r.endpoint() != "a" {
			t.Errorf("request %d: status %d from %q: %s", i, r.status, r.endpoint(), r.body)
		}
	}
	if n := b.count(); n != 0 {
		t.Errorf("%d requests went to the server that has passed no check", n)
	}
	if state := g.endpoint("b").State; state != "starting" {
		t.Errorf("the server that has not answered is %q", state)
	}
}

// A gateway that has just started refuses nobody because it has not looked yet, nor
// does it where it has to look first.
func TestTheFirstRequestAfterTheStart(t *testing.T) {
	for _, initial := range []string{"usable", "must_pass"} {
		t.Run(initial, func(t *testing.T) {
			a, b := saying(t, fine), saying(t, fine)
			g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%sinitial %s\n%s}\n", a.addr(), b.addr(), fast, ready, initial, named(a, b)))
			if r := g.post(distinct(0)); r.status != http.StatusOK {
				t.Errorf("status %d: %s", r.status, r.body)
			}
		})
	}
}

// A check that fails everywhere at once is more often a wrong path than the end of
// all servers. They go on serving, and the gateway says so, unless the operator
// wants requests refused: those get 503 and are told when to come back. Either way
// the first server that passes again gets everything.
func TestChecksHaveTakenOutAllServers(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		t.Run(fmt.Sprint("refuse ", refuse), func(t *testing.T) {
			a, illA := switched(t)
			b, illB := switched(t)
			options := "queue {\nmax_wait 300ms\n}\n"
			if refuse {
				options += "all_down refuse\n"
			}
			g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s%s%s}\n", a.addr(), b.addr(), fast, ready, options, named(a, b)))
			illA.Store(true)
			illB.Store(true)
			eventually(t, "both servers to be down", func() bool { return g.endpoint("a").State == "down" && g.endpoint("b").State == "down" })
			if says := g.pools()[0].AllDown; says != !refuse {
				t.Errorf("the gateway says %v of serving although all are down", says)
			}
			for i := range 6 {
				r := g.post(distinct(i))
				switch {
				case !refuse && r.status != http.StatusOK:
					t.Errorf("status %d: %s", r.status, r.body)
				case refuse && (r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "no_endpoint")):
					t.Errorf("status %d, Retry-After %q: %s", r.status, r.header.Get("Retry-After"), r.body)
				}
			}
			if n := a.count() + b.count(); refuse && n != 0 {
				t.Errorf("%d requests went to servers that are down", n)
			}
			illB.Store(false)
			eventually(t, "one server to be up again", func() bool { return g.endpoint("b").State == "up" })
			if says := g.pools()[0].AllDown; says {
				t.Error("the gateway still says that all are down")
			}
			for i := range 6 {
				if r := g.post(distinct(10 + i)); r.status != http.StatusOK || r.endpoint() != "b" {
					t.Errorf("status %d from %q: %s", r.status, r.endpoint(), r.body)
				}
			}
		})
	}
}

// Servers that nobody can check serve all the same, and nobody is warned of them.
func TestServersWithoutAHealthPath(t *testing.T) {
	a, b := saying(t, http.NotFound), saying(t, http.NotFound)
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s}\n", a.addr(), b.addr(), fast, named(a, b)))
	a.seen()
	b.seen()
	for i := range 10 {
		if r := g.post(distinct(i)); r.status != http.StatusOK {
			t.Errorf("status %d: %s", r.status, r.body)
		}
	}
	for _, name := range []string{"a", "b"} {
		if e := g.endpoint(name); e.State != "up" || e.Reason != "" {
			t.Errorf("%s is %q: %s", name, e.State, e.Reason)
		}
	}
}
