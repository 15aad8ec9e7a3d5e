package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A server dies after two tokens. With every option for retries at its most
// generous the client sees them once, no clean end, and nothing of another
// answer.
func TestNothingIsRetriedAfterTheFirstToken(t *testing.T) {
	g, a, b := steered(t, "failover no_token\nretries 100\n")
	a.answers(cuts(3))
	res, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat(true, "", "hi")))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil {
		t.Error("the stream ended cleanly")
	}
	if want := "data: " + strings.Join(answerEvents[:3], "\n\ndata: ") + "\n\n"; string(text) != want {
		t.Errorf("the client got %q, want %q", text, want)
	}
	g.idle(t)
	if b.count() != 0 || a.count() != 1 {
		t.Errorf("the servers got %d and %d requests, want 1 and 0", a.count(), b.count())
	}
	if ended := g.attempts("a"); ended["truncated"] != 1 || total(ended) != 1 {
		t.Errorf("attempts ended %v, want one truncated", ended)
	}
}

// The client leaves while the first server makes up its mind to fail. Nobody is
// asked after that.
func TestNoAttemptAfterTheClientHasLeft(t *testing.T) {
	for _, mode := range failovers {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stream %v", mode.name, stream), func(t *testing.T) {
				a, b := newBackend(t), newBackend(t)
				log := newJournal(t)
				g := start(t, fmt.Sprintf("%sllm_proxy %s %s {\n%s%s%sretries 2\n}\n", log.directive(), a.addr(), b.addr(), fast, named(a, b), mode.options))
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				fail := func(w http.ResponseWriter, r *http.Request, body []byte) {
					leave()
					select {
					case <-r.Context().Done():
					case <-time.After(within):
						t.Error("the server was never told that the client had left")
					}
					closes(w, r, body)
				}
				a.answers(fail)
				b.answers(fail)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(chat(stream, "", "hi")))
				if err != nil {
					t.Fatal(err)
				}
				client := &http.Client{Transport: new(http.Transport)}
				defer client.CloseIdleConnections()
				if res, err := client.Do(req); err == nil {
					res.Body.Close()
					t.Errorf("status %d for a client that has left", res.StatusCode)
				}
				entry := log.entries(t, 1)[0] // the request is over
				if n := a.count() + b.count(); n != 1 {
					t.Errorf("%d requests reached the servers, want 1", n)
				}
				if entry["llm_attempts"] != 1.0 || entry["llm_outcome"] != "client_gone" || entry["status"] != 499.0 {
					t.Errorf("the log says %v attempts, %v, %v; want 1, client_gone, 499", entry["llm_attempts"], entry["llm_outcome"], entry["status"])
				}
				for _, name := range []string{"a", "b"} {
					if row := g.endpoint(name); row.State != "up" || row.ErrorRate != 0 {
						t.Errorf("%s is %s, error rate %v; a client that leaves says nothing of it", name, row.State, row.ErrorRate)
					}
				}
			})
		}
	}
}

// Where every server fails, a request costs the first attempt and as many more as
// the option says.
func TestAttemptsAreBounded(t *testing.T) {
	for _, retries := range []int{0, 1, 2} {
		for name, fail := range map[string]func(http.ResponseWriter, *http.Request, []byte){
			"500":                  status(http.StatusInternalServerError, "", "{}"),
			"503":                  status(http.StatusServiceUnavailable, "", "{}"),
			"503, a short pause":   status(http.StatusServiceUnavailable, "0", "{}"),
			"closed":               closes,
			"closed, after a role": cuts(1),
		} {
			t.Run(fmt.Sprintf("%d/%s", retries, name), func(t *testing.T) {
				g, list := trio(t, fmt.Sprintf("%s%sretries %d\n", fast, unshared, retries))
				for _, b := range list {
					b.answers(fail)
				}
				r := g.post(chat(true, "", "hi"))
				if r.status < 500 && r.status != http.StatusTooManyRequests {
					t.Errorf("status %d: %s", r.status, r.body)
				}
				g.idle(t)
				sum, most := 0, 0
				for _, b := range list {
					sum += b.count()
					most = max(most, b.count())
				}
				if sum != 1+retries || most > 1 {
					t.Errorf("the servers got %d requests, one of them %d; want one each of %d", sum, most, 1+retries)
				}
			})
		}
	}
}

// A request that kills whoever reads it is sent to one server where the operator
// says so, and not through the whole pool.
func TestAPoisonousRequestKillsOneServer(t *testing.T) {
	for _, option := range []string{"retries 0\n", "failover off\n", "failover unsent\n"} {
		t.Run(strings.TrimSpace(option), func(t *testing.T) {
			g, list := trio(t, fast+unshared+option)
			for _, b := range list {
				b.answers(closes)
			}
			r := g.post(distinct(1))
			if r.status != http.StatusBadGateway {
				t.Errorf("status %d: %s", r.status, r.body)
			}
			discreet(t, r, list...)
			g.idle(t)
			if n := list[0].count() + list[1].count() + list[2].count(); n != 1 {
				t.Errorf("%d servers got it, want 1", n)
			}
		})
	}
}

// With every server failing, two hundred requests do not become six hundred: what
// may be tried again is a fifth of them, and a few more.
func TestTheRetryBudgetHoldsInAnOutage(t *testing.T) {
	const n = 200
	g, list := trio(t, fast+"circuit off\n")
	for _, b := range list {
		b.answers(status(http.StatusInternalServerError, "", `{"error":"dead"}`))
	}
	for i := range n { // one at a time, so that hardly any are open
		if r := g.post(distinct(i)); r.status != http.StatusInternalServerError {
			t.Fatalf("request %d: status %d: %s", i, r.status, r.body)
		}
	}
	sum := 0
	for _, b := range list {
		sum += b.count()
	}
	// A fifth, ten, and one for the request that is open.
	if most := n + n/5 + 10 + n/10; sum < n || sum > most {
		t.Errorf("%d attempts for %d requests, want %d at most", sum, n, most)
	}
}
