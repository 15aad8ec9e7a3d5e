package health

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A health path that is wrong on all servers takes none of them from the clients,
// and the operator is told once, as an error, what to do, and when it is over. With
// all_down refuse they are told the opposite.
func TestChecksTakeOutEveryServer(t *testing.T) {
	for what, refuse := range map[string]bool{"used all the same": false, "requests are refused": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newServers()
				for _, a := range []string{"a:1", "b:1"} {
					net.set(a, serves(load(0, 0, 0)))
					net.isReady(a, servesStatus(http.StatusNotFound))
				}
				core, logs := recorded()
				c := newConfig(t, core)
				s := settings(t, net, "a:1", "b:1")
				s.Checks.Readiness.Path, s.Checks.Refuse = "/healthz", refuse
				h := c.watch(t, s)
				c.start(t)
				time.Sleep(time.Minute)
				if got := h.Pool().AllDown(time.Now()); got == refuse {
					t.Errorf("serves all the same: %v", got)
				}
				if list := lines(logs); count(list, `"level":"error","msg":"checks have taken out every endpoint; `) != 1 || count(list, what) != 1 {
					t.Errorf("log %q", list)
				}
				// A reload that changes what becomes of requests is told too.
				other := newConfig(t, core)
				s = settings(t, net, "a:1", "b:1")
				s.Checks.Readiness.Path, s.Checks.Refuse = "/healthz", !refuse
				other.watch(t, s)
				other.start(t)
				c.end(t)
				c = other
				time.Sleep(5 * time.Second)
				if list := lines(logs); count(list, `"level":"error","msg":"checks have taken out every endpoint; `) != 2 || count(list, what) != 1 {
					t.Errorf("log %q", list)
				}
				net.isReady("a:1", servesStatus(http.StatusOK))
				time.Sleep(20 * time.Second)
				if list := strings.Join(lines(logs), "\n"); strings.Count(list, "checks no longer take out every endpoint") != 1 {
					t.Errorf("log %s", list)
				}
				c.end(t)
			})
		})
	}
}
