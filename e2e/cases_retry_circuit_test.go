package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A server fails every request at once and so looks idle, while its health is
// fine. After a few it gets nothing more, and with the default none of its
// failures reaches a client.
func TestAServerThatFailsEverythingIsTakenOut(t *testing.T) {
	for _, mode := range failovers {
		t.Run(mode.name, func(t *testing.T) {
			g, a, b := steered(t, mode.options+"circuit {\nopen_for 1h\n}\n")
			a.answers(status(http.StatusInternalServerError, "", `{"error":{"message":"CUDA error"}}`))
			b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
				time.Sleep(100 * time.Millisecond) // the work it does
				answer(w, r, body)
			})
			var failed atomic.Int32
			var all sync.WaitGroup
			every := time.NewTicker(20 * time.Millisecond) // the case's own rhythm
			defer every.Stop()
			// On a machine that is behind, no more are under way than on one that
			// is not: those count beyond the threshold.
			limit := make(chan struct{}, 5)
			for i := range 50 {
				<-every.C
				limit <- struct{}{}
				all.Go(func() {
					defer func() { <-limit }()
					switch r := g.post(distinct(i)); r.status {
					case http.StatusOK:
					case http.StatusInternalServerError:
						failed.Add(1)
					default:
						t.Errorf("request %d: status %d: %s", i, r.status, r.body)
					}
				})
			}
			all.Wait()
			if n := a.count(); n < 5 || n > 10 {
				t.Errorf("the server that fails got %d requests, want the 5 of the threshold and hardly more", n)
			}
			switch n := int(failed.Load()); {
			case mode.options == "" && n > 0:
				t.Errorf("%d clients saw a failure of it", n)
			case n > 10:
				t.Errorf("%d clients saw a failure of it, want 10 at most", n)
			}
			row := g.endpoint("a")
			if row.State != "down" || row.Circuit != "open" || !strings.Contains(row.Reason, "failures in a row") {
				t.Errorf("it is %s, circuit %s (%s)", row.State, row.Circuit, row.Reason)
			}
			if g.metric("caddy_llmlb_endpoint_state", "a") < 0 {
				t.Error("no metric tells the server's state")
			}
		})
	}
}

// lasting is how long circuits are open in tests that watch them: long enough to
// look at, short enough to wait for.
const lasting = 2 * time.Second

// The circuit of a server that fails opens, lets one request through when its
// time has come, opens again for longer if that fails, and closes if it does not.
// The operator can follow all of it, and no client sees any.
func TestACircuitFromOpeningToClosing(t *testing.T) {
	g, a, _ := steered(t, fmt.Sprintf("%scircuit {\nfailures 3\nopen_for %v\n}\n", unshared, lasting))
	a.answers(closes)
	asked := 0
	ask := func() reply {
		t.Helper()
		asked++
		r := g.post(distinct(asked))
		if r.status != http.StatusOK {
			t.Fatalf("request %d: status %d: %s", asked, r.status, r.body)
		}
		return r
	}
	for range 3 {
		ask()
	}
	if n := a.count(); n != 3 {
		t.Fatalf("the server got %d requests, want the first three", n)
	}
	open := g.endpoint("a")
	if open.Circuit != "open" || open.State != "down" || !strings.Contains(open.Reason, "3 failures in a row") || !strings.Contains(open.Next, "trial in") {
		t.Errorf("circuit %s, state %s (%s; %s) after three failures", open.Circuit, open.State, open.Reason, open.Next)
	}
	if got := g.metric(`caddy_llmlb_circuit_openings_total`, "a"); got != 1 {
		t.Errorf("the metric counts %v openings, want 1", got)
	}

	// Open: nothing goes there.
	for time.Now().Add(lasting / 4).Before(open.RetryAt) {
		ask()
		if n := a.count(); n != 3 && time.Now().Before(open.RetryAt) {
			t.Fatalf("the server got request %d while its circuit was open", n)
		}
	}

	// Half-open: one request is let through, which fails. Nobody follows it, and
	// the circuit opens again for twice as long.
	eventually(t, "the trial to be due", func() bool { return g.endpoint("a").Circuit == "half-open" })
	release := make(chan struct{})
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		<-release
		closes(w, r, body)
	})
	trial := make(chan reply, 1)
	go func() {
		r, err := g.ask(http.DefaultClient, distinct(1000))
		if err != nil {
			t.Error(err)
		}
		trial <- r
	}()
	a.await("the trial", func() bool { return a.hits == 4 })
	if row := g.endpoint("a"); row.Circuit != "half-open" || row.Next != "trial under way" {
		t.Errorf("circuit %s (%s) during the trial", row.Circuit, row.Next)
	}
	for range 5 {
		if r := ask(); r.endpoint() != "b" {
			t.Errorf("a request went to %s during the trial", r.endpoint())
		}
	}
	close(release)
	if r := <-trial; r.status != http.StatusOK || r.endpoint() != "b" {
		t.Errorf("the request that was the trial: status %d from %q: %s", r.status, r.endpoint(), r.body)
	}
	again := g.endpoint("a")
	if pause := again.RetryAt.Sub(open.RetryAt); again.Circuit != "open" || pause < 2*lasting {
		t.Errorf("circuit %s, the next trial %v after the one before; want open for %v", again.Circuit, pause, 2*lasting)
	}

	// The server is well. The next trial shows it.
	a.answers(answer)
	eventually(t, "the circuit to close", func() bool {
		ask()
		return g.endpoint("a").Circuit == "closed"
	})
	if n := a.count(); n < 5 {
		t.Errorf("the server got %d requests", n)
	}
	if row := g.endpoint("a"); row.State != "up" || row.Next != "" {
		t.Errorf("state %s (%s) after a trial that succeeded", row.State, row.Reason)
	}
	eventually(t, "work to go there again", func() bool { return ask().endpoint() == "a" })
	if got := g.metric(`caddy_llmlb_circuit_openings_total`, "a"); got != 1 {
		t.Errorf("the metric counts %v openings, want 1: a trial that fails is none", got)
	}
}

// A server fails every second request. That never makes five in a row; its rate
// takes it out all the same.
func TestACircuitOpensByRate(t *testing.T) {
	g, a, _ := steered(t, unshared+"circuit {\nrate 40%\nopen_for 1h\n}\n")
	var n atomic.Int32
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if n.Add(1)%2 == 1 {
			closes(w, r, body)
		}
		answer(w, r, body)
	})
	for i := range 60 {
		if r := g.post(distinct(i)); r.status != http.StatusOK {
			t.Fatalf("request %d: status %d: %s", i, r.status, r.body)
		}
	}
	// A rate is made of twenty attempts at least.
	if got := a.count(); got < 20 || got > 40 {
		t.Errorf("the server got %d requests, want 20 and some", got)
	}
	row := g.endpoint("a")
	if row.Circuit != "open" || row.State != "down" || !strings.Contains(row.Reason, "% of the latest attempts failed") {
		t.Errorf("circuit %s, state %s (%s)", row.Circuit, row.State, row.Reason)
	}
}

// Nothing is scraped, so that only requests can tell. The server, alone in its
// pool, fails until its circuit opens, and is well from then on: it serves at
// once, since there is nobody else, and its circuit closes without anybody's help.
func TestAServerAloneRecovers(t *testing.T) {
	a := newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s {\nengine none\nretries 0\n%scircuit {\nfailures 4\nopen_for 500ms\n}\n}\n", a.addr(), named(a)))
	const words = `{"error":{"message":"CUDA error: an illegal memory access"}}`
	a.answers(status(http.StatusInternalServerError, "", words))
	for i := range 4 {
		if r := g.post(distinct(i)); r.status != http.StatusInternalServerError || r.body != words {
			t.Errorf("request %d: status %d: %s", i, r.status, r.body)
		}
	}
	g.idle(t) // an attempt may end a moment after its answer
	if row := g.endpoint("a"); row.Circuit == "closed" || row.State != "down" {
		t.Errorf("circuit %s, state %s after four failures (%s)", row.Circuit, row.State, row.Reason)
	}
	a.answers(answer)
	i := 4
	eventually(t, "the circuit to close", func() bool {
		i++
		if r := g.post(distinct(i)); r.status != http.StatusOK {
			t.Fatalf("status %d of a server that is well, and has nobody beside it: %s", r.status, r.body)
		}
		row := g.endpoint("a")
		return row.Circuit == "closed" && row.State == "up"
	})
}
