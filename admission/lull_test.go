package admission

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A request waits for servers that nobody can reach, and is answered soon after
// one is back. Until then it knocks now and then: a refused connection takes no
// time, and whoever tried all the time would keep a core busy for each request.
func TestServersThatAreGoneAreAskedNowAndThen(t *testing.T) {
	for _, test := range []struct {
		name   string
		back   time.Duration // when the servers are there again
		status int
	}{
		{"back in time", 5 * time.Second, http.StatusOK},
		{"not back in time", time.Hour, http.StatusServiceUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, &Handler{Queue: wait(10 * time.Second)}, "a", "b")
				s.attempt = func(a *played) *ending {
					if a.after < test.back {
						a.call.ExcludeUnsent(a.endpoint)
						a.endpoint.NotReached(time.Now(), "connection refused")
						return &ending{outcome: llmlb.Unreachable}
					}
					ok(a)
					return nil
				}
				resp, body, err := s.post(t.Context(), plain)
				if err != nil || resp.StatusCode != test.status {
					t.Fatalf("got %d %s, %v", resp.StatusCode, body, err)
				}
				if took := s.took(); took > min(test.back+lullMost, 10*time.Second) {
					t.Errorf("it took %v", took)
				}
				if n := len(s.seen); n < 6 || n > 40 {
					t.Errorf("%d attempts in %v", n, s.took())
				}
			})
		})
	}
}
