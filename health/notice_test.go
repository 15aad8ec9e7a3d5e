package health

import (
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// A server that can be reached again is asked at once whether it is ready, and not
// at its next turn: somebody waits for it.
func TestWhoComesBackIsAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(0, 0, 0)))
		s := settings(t, net, "a:1")
		s.Checks.Readiness.Interval = time.Minute
		h := run(t, s)
		time.Sleep(10 * time.Second)
		net.set("a:1", fails(reverseproxy.NewDialError(syscall.ECONNREFUSED)))
		time.Sleep(10 * time.Second)
		if r := row(t, h, "a:1"); r.State != "down" {
			t.Fatalf("row is %+v", r)
		}
		net.set("a:1", serves(load(0, 0, 0)))
		time.Sleep(1100 * time.Millisecond) // a scrape
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v, want up", r)
		}
	})
}

// The engine's own path is asked for as soon as the engine is known, and not a
// minute after another one was not there.
func TestOwnPathIsAskedWhenTheEngineIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		var mu sync.Mutex
		asked := make(map[string]bool)
		servers := []string{"a:1", "b:1", "c:1", "d:1", "e:1", "f:1", "g:1", "h:1"}
		for _, a := range servers {
			net.set(a, (&paths{pages: pages{"/v1/metrics": serves(nimPage)}}).answer)
			net.isReady(a, func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				asked[r.URL.Host+r.URL.Path] = true
				return servesStatus(http.StatusNotFound)(r)
			})
		}
		run(t, settings(t, net, servers...))
		time.Sleep(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		for _, a := range servers {
			if !asked[a+"/health"] || !asked[a+"/v1/health/ready"] {
				t.Errorf("%s was asked for its own path: %v", a, asked[a+"/v1/health/ready"])
			}
		}
	})
}

// What changes with nothing but time is told too, within about a second: here that
// a server which refused a request for want of room takes new ones again. It is no
// news for the log that operators read.
func TestChangesThatComeWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(0, 0, 0)))
		core, logs := observer.New(zap.DebugLevel)
		c := newConfig(t, core)
		h := c.watch(t, settings(t, net, "a:1"))
		c.start(t)
		time.Sleep(2 * time.Second)
		h.Pool().Endpoints()[0].NoteOverload(time.Now(), 5*time.Second)
		time.Sleep(1100 * time.Millisecond)
		const began, over = `"level":"debug","msg":"endpoint state changed"`, `"from":"overloaded","to":"up"`
		if list := lines(logs); count(list, began) != 1 || count(list, over) != 0 {
			t.Errorf("log %q", list)
		}
		time.Sleep(5 * time.Second)
		if list := lines(logs); count(list, began) != 2 || count(list, over) != 1 {
			t.Errorf("log %q", list)
		}
		c.end(t)
	})
}
