package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A server is drained, restarted, and resumed before its model is loaded, sooner than
// the gateway could have noticed. It gets nothing, and the command does not say that it
// is in use, until a check has passed.
func TestAResumeRightAfterARestart(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\nscrape_interval 1s\nstale_after 30s\nreadiness {\ninterval 10s\n}\n%s}\n", a.addr(), b.addr(), named(a, b)))
	a.await("a check", func() bool { return a.checks > 0 && a.scrapes > 0 })
	b.await("a check", func() bool { return b.checks > 0 && b.scrapes > 0 })
	g.order(http.MethodPost, "a", "/drain")
	a.answers(status(http.StatusServiceUnavailable, "", "loading"))
	var loaded atomic.Bool
	a.says(func(w http.ResponseWriter, _ *http.Request) {
		if !loaded.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	eventually(t, "the server to be drained", func() bool { return g.endpoint("a").State == "drained" })
	if err := g.command("llm-resume a --wait --timeout 1500ms"); err == nil || !strings.Contains(err.Error(), "not in use within 1.5s: a "+a.addr()+": starting") {
		t.Errorf("it loads, and the command says %v", err)
	}
	hits := a.count()
	for i := range 10 {
		if r := g.post(distinct(i)); r.status != http.StatusOK || r.endpoint() != "b" {
			t.Errorf("status %d from %q", r.status, r.endpoint())
		}
	}
	if n := a.count() - hits; n != 0 {
		t.Errorf("%d requests reached a server that loads", n)
	}
	loaded.Store(true)
	if err := g.command("llm-resume a --wait --timeout 10s"); err != nil {
		t.Error(err)
	}
	if row := g.endpoint("a"); row.State != "up" {
		t.Errorf("it is %s (%s)", row.State, row.Reason)
	}
}

// A server is drained, stopped and resumed at once, whether or not it is asked if it is
// ready: the command does not take the old process for the new one.
func TestAResumeOfAServerThatIsNotThere(t *testing.T) {
	for name, options := range map[string]string{"asked": "", "not asked": "readiness off\n"} {
		t.Run(name, func(t *testing.T) {
			g, a, _ := pair(t, options)
			if a.seen(); options == "" {
				a.await("a check", func() bool { return a.checks > 0 })
			}
			g.order(http.MethodPost, "a", "/drain")
			eventually(t, "the server to be drained", func() bool { return g.endpoint("a").State == "drained" })
			a.goDown()
			if err := g.command("llm-resume a --wait --timeout 1500ms"); err == nil || !strings.Contains(err.Error(), "not in use within 1.5s") {
				t.Errorf("it is not there, and the command says %v", err)
			}
			a.comeUp()
			if err := g.command("llm-resume a --wait --timeout 20s"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A pool gets another name while one of its servers drains. The limit of the order
// comes all the same, and whoever waits for the drain hears that the server takes
// requests under the new name.
func TestADrainWhosePoolIsRenamed(t *testing.T) {
	a := newBackend(t)
	open := gate(a)
	defer open()
	site := func(pool string) string {
		return fmt.Sprintf("llm_proxy %s {\npool %s\n%s%s}\n", a.addr(), pool, fast, named(a))
	}
	g := start(t, site("one"))
	stream, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat(true, "", "runs")))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	waited := make(chan error, 1)
	ordered := time.Now()
	go func() { waited <- g.command("llm-drain a --wait --limit 3s --cut") }()
	eventually(t, "the server to drain", func() bool {
		return strings.Contains(g.told(http.MethodGet, "/llmlb/pools/one/endpoints/a", "", nil).body, `"state":"draining"`)
	})
	if err := g.load(site("two")); err != nil {
		t.Fatal(err)
	}
	err = arrives(t, "the end of the wait", waited)
	if took := time.Since(ordered); took < 3*time.Second || took > 6*time.Second {
		t.Errorf("the wait ended after %v", took)
	}
	if err == nil || !strings.Contains(err.Error(), a.addr()+" is in pool two now, where it is up") {
		t.Errorf("the command says %v", err)
	}
	if n := a.count(); n != 1 {
		t.Errorf("%d requests", n)
	}
}
