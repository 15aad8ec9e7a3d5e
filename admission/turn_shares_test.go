package admission

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// visitors is clients of several tenants at a stage with one server, which takes
// one request at a time and answers each after a second.
type visitors struct {
	*stage
	mu   sync.Mutex
	done []string // "<tenant> <status> <code> <after> <Retry-After>"
	all  sync.WaitGroup
}

func newVisitors(t *testing.T, q *Queue) *visitors {
	v := &visitors{stage: newStage(t, &Handler{Queue: q, Tenant: "{http.request.header.X-User}", DeadlineHeader: "X-Deadline"}, "a")}
	v.settings.Members[0].MaxConcurrent = 1
	v.attempt = func(a *played) *ending {
		time.Sleep(time.Second)
		ok(a)
		return nil
	}
	return v
}

// come sends a request of the tenant.
func (v *visitors) come(tenant, body, deadline string) {
	repl := caddy.NewReplacer()
	repl.Set("http.request.header.X-User", tenant)
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(body))
	r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl))
	if deadline != "" {
		r.Header.Set("X-Deadline", deadline)
	}
	came := time.Now()
	v.all.Go(func() {
		w := httptest.NewRecorder()
		_ = v.handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(v.serve))
		code := ""
		for _, c := range []string{"queue_full", "queue_tokens", "deadline", "queue_timeout"} {
			if strings.Contains(w.Body.String(), `"`+c+`"`) {
				code = " " + c
			}
		}
		after := time.Since(came).Round(100 * time.Millisecond)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.done = append(v.done, strings.TrimSpace(fmt.Sprint(tenant, " ", w.Code, code, " ", after, " ", w.Header().Get("Retry-After"))))
	})
	synctest.Wait()
}

// serve is the proxy, for several at a time.
func (v *visitors) serve(w http.ResponseWriter, r *http.Request) error {
	one := *v.stage
	one.seen = nil
	return one.ServeHTTP(w, r)
}

// ended returns what has become of those that wait no more.
func (v *visitors) ended() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.done)
}

// A tenant whose requests fill the queue gives way to another one's: its newest
// one is told so, before it has waited for nothing.
func TestAFullQueueGivesWayToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVisitors(t, &Queue{Calls: new(3)})
		for range 4 {
			v.come("alice", plain, "")
		}
		v.come("alice", plain, "")
		v.come("bob", plain, "")
		if want := []string{"alice 429 queue_full 0s 1", "alice 429 queue_full 0s 1"}; !slices.Equal(v.ended(), want) {
			t.Errorf("at once: %q, want %q", v.ended(), want)
		}
		v.all.Wait()
		if got := len(v.ended()); got != 6 || !slices.Contains(v.ended(), "bob 200 2s") && !slices.Contains(v.ended(), "bob 200 3s") {
			t.Errorf("in the end: %q", v.ended())
		}
		v.calm()
	})
}

// Tokens likewise, which are the reason then.
func TestTokensGiveWayToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVisitors(t, &Queue{MaxTokens: 2000})
		v.come("alice", plain, "")
		for len(v.ended()) == 0 {
			v.come("alice", plain, "")
		}
		v.come("bob", plain, "")
		if len(v.ended()) != 2 || !strings.HasPrefix(v.ended()[1], "alice 429 queue_tokens 0s") {
			t.Errorf("at once: %q", v.ended())
		}
		v.all.Wait()
		if !slices.ContainsFunc(v.ended(), func(s string) bool { return strings.HasPrefix(s, "bob 200") }) {
			t.Errorf("in the end: %q", v.ended())
		}
		v.calm()
	})
}

// A deadline is held against what a request has to wait for, not against how much
// another tenant has waiting.
func TestDeadlineBesideACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVisitors(t, nil)
		for range 25 {
			v.come("alice", plain, "")
		}
		time.Sleep(5500 * time.Millisecond) // how fast it goes is known
		served := len(v.ended())
		v.come("alice", plain, "4")
		if got := v.ended()[served:]; len(got) != 1 || got[0] != "alice 429 deadline 0s 19" && got[0] != "alice 429 deadline 0s 20" {
			t.Errorf("of the crowd: %q, want a refusal that says 19 or 20 seconds", got)
		}
		v.come("bob", strings.Replace(plain, `"messages"`, `"max_tokens":4000,"messages"`, 1), "4")
		v.all.Wait()
		if !slices.ContainsFunc(v.ended(), func(s string) bool { return strings.HasPrefix(s, "bob 200") }) {
			t.Errorf("in the end: %q", v.ended())
		}
		v.calm()
	})
}
