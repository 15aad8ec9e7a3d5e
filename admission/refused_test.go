package admission

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// What a client is told names the bound that was reached, whether its body was
// read by then or not.
func TestARefusalNamesTheBoundThatWasReached(t *testing.T) {
	const long = `{"model":"m","max_tokens":1000,"messages":[{"role":"user","content":"hi"}]}`
	for _, test := range []struct {
		name  string
		queue object
		now   string // X-Now
		code  string
		says  string
	}{
		{"requests", object{"calls": 1, "max_tokens": 4000}, "", "queue_full", "as many requests wait as may, 1 (queue)"},
		{"tokens", object{"calls": 100, "max_tokens": 400}, "", "queue_tokens", "no more than 400 tokens may wait (queue max_tokens)"},
		{"both", object{"calls": 1, "max_tokens": 400}, "", "queue_full", "as many requests wait as may, 1 (queue)"},
		{"a class that does not wait", object{"calls": 100}, "1", "queue_full", "requests of this class do not wait (max_wait)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			hold := make(chan struct{})
			e := newEngine(t, func(http.ResponseWriter, *http.Request) { <-hold })
			g := start(t, site{
				upstreams: []string{e.address()},
				admission: object{"queue": test.queue, "classes": []object{
					{"name": "now", "max_wait": "0s", "expression": `{http.request.header.X-Now} == "1"`}, {"name": "rest"},
				}},
				policy: object{"endpoints": []object{{"upstream": e.address(), "max_concurrent": 1}}},
			})
			ctx, end := context.WithCancel(t.Context())
			done := make(chan struct{}, 2)
			defer func() { end(); close(hold); <-done; <-done }()
			send := func(body string) {
				req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.address+chatPath, strings.NewReader(body))
				c := client(t)
				go func() {
					if resp, err := c.Do(req); err == nil {
						_ = resp.Body.Close()
					}
					done <- struct{}{}
				}()
			}
			until := func(what string, ok func() bool) {
				for end := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal(what)
					}
				}
			}
			send(plain)
			until("the server got nothing", func() bool { seen, _ := e.requests(); return len(seen) == 1 })
			send(long)
			until("nobody waits", func() bool { return turnsOf(g.pool).queue.Len() == 1 })
			resp, body := g.do(http.MethodPost, chatPath, strings.NewReader(plain), http.Header{"X-Now": {test.now}})
			if says := wantError(t, resp, body, http.StatusTooManyRequests, test.code); !strings.Contains(says, test.says) {
				t.Errorf("it says %q", says)
			}
		})
	}
}

// A client that leaves in the pause before another try is sent nowhere again.
func TestAClientThatLeavesInALullIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, &Handler{Queue: wait(time.Minute)}, "a")
		ctx, leave := context.WithCancel(t.Context())
		s.attempt = func(a *played) *ending {
			if a.n == 4 {
				time.AfterFunc(lullFirst/2, leave)
			}
			a.call.ExcludeUnsent(a.endpoint)
			return &ending{outcome: llmlb.Unreachable}
		}
		resp, body, err := s.post(ctx, plain)
		if err != nil || resp.StatusCode != statusClientGone {
			t.Errorf("got %d %s, %v", resp.StatusCode, body, err)
		}
		if s.passes != 4 || len(s.seen) != 4 {
			t.Errorf("the proxy was asked %d times and tried %d, want 4", s.passes, len(s.seen))
		}
	})
}

// When something that is told of a request's end breaks, what the request held is
// given back all the same: its tenant would else be kept out for good.
func TestABrokenEndGivesEverythingBack(t *testing.T) {
	h := &Handler{TenantLimits: []TenantLimit{{Concurrent: 1}}, Tenant: "a"}
	s := newStage(t, h, "a")
	s.attempt = func(a *played) *ending {
		s.pool.OnRoom(func(*llmlb.Endpoint) { panic("broken") })
		panic(http.ErrAbortHandler)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nothing broke")
			}
		}()
		_, _, _ = s.post(t.Context(), plain)
	}()
	s.pool.OnRoom(turnsOf(s.pool).room)
	s.attempt = func(a *played) *ending { ok(a); return nil }
	if resp, body, _ := s.post(t.Context(), plain); resp.StatusCode != http.StatusOK {
		t.Errorf("the next one got %d %s", resp.StatusCode, body)
	}
}
