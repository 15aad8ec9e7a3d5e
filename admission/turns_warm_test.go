package admission

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// beside makes the visitors' servers such that a has prompts to compute for longer
// than anybody waits, and b has just come back, has its share, and is idle but for
// that.
func (v *visitors) beside(t *testing.T) {
	t.Helper()
	v.settings.Checks.WarmUp = 10 * time.Minute
	time.Sleep(time.Minute) // the pool is at work
	now := time.Now()
	v.occupies("a", 100_000)
	b := v.endpoint("b")
	b.Drain(now, llmlb.DrainOrder{})
	if err := b.Resume(now); err != nil {
		t.Fatal(err)
	}
	v.occupies("b", 1).FirstToken()
}

// occupies puts a prompt of so many tokens to the server.
func (v *visitors) occupies(name string, tokens int) *llmlb.Lease {
	v.pool.Lock()
	defer v.pool.Unlock()
	return v.pool.Reserve(v.endpoint(name), time.Now(), llmlb.Work{Uncached: tokens, Output: 1})
}

// Requests wait beside a server that warms up and has its share, for one that has
// enough to do; but before any is refused it gets its answer from the former: when it
// has waited for as long as it may, and when the queue is full.
func TestNobodyIsRefusedForAWarmUp(t *testing.T) {
	for name, tc := range map[string]struct {
		calls int
		after string
	}{"max_wait": {100, "6s"}, "queue full": {2, "1s"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &Queue{Calls: &tc.calls, MaxWait: new(caddy.Duration(5 * time.Second))}
				v := &visitors{stage: newStage(t, &Handler{Queue: q, Tenant: "{http.request.header.X-User}"}, "a", "b")}
				v.beside(t)
				v.attempt = func(a *played) *ending {
					if a.endpoint.Name() != "b" {
						t.Errorf("a request went to %s", a.endpoint.Name())
					}
					time.Sleep(time.Second)
					ok(a)
					return nil
				}
				for i := range 3 {
					v.come("alice", strings.Replace(plain, "hi", fmt.Sprint("hi ", i), 1), "")
				}
				v.all.Wait()
				for _, got := range v.ended() {
					if want := "alice 200 " + tc.after; got != want {
						t.Errorf("%q, want %q", got, want)
					}
				}
			})
		})
	}
}

// Those who wait beside a server that warms up keep nobody waiting who waits for
// another model's.
func TestWhoIsHeldBackBarsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmlb.NewPool("test")
		s := single("", "a", "b", "c")
		s.Checks.WarmUp = 10 * time.Minute
		s.Members[0].MaxConcurrent, s.Members[1].MaxConcurrent = 0, 0
		load(t, p, s)
		time.Sleep(time.Minute)
		for i, model := range []string{"A", "A", "C"} {
			s.Members[i].Endpoint.ObserveModels(time.Now(), []llmlb.Model{{ID: model}})
		}
		b := s.Members[1].Endpoint
		b.Drain(time.Now(), llmlb.DrainOrder{})
		if err := b.Resume(time.Now()); err != nil {
			t.Fatal(err)
		}
		p.Lock()
		p.Reserve(s.Members[0].Endpoint, time.Now(), llmlb.Work{Uncached: 100_000, Output: 1})
		share := p.Reserve(b, time.Now(), llmlb.Work{Uncached: 1, Output: 1})
		p.Unlock()
		share.FirstToken()
		first, _ := asks(p, s, "C")
		_, held := asks(p, s, "A")
		_, other := asks(p, s, "C")
		if soonPlaced(held) {
			t.Fatal("it is not held back")
		}
		first.EndAttempt(time.Now(), llmlb.Served)
		if !soonPlaced(other) {
			t.Error("the server of C is idle, and a request waits behind one of A")
		}
		if soonPlaced(held) {
			t.Error("a server that has its share was given more")
		}
	})
}
