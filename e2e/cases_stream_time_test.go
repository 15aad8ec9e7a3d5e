package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// limits are of very different length, and none of them is about how long an
// answer takes.
const limits = "first_token 4s 4s\nstall_timeout 3s\ntransport {\ndial_timeout 1s\n}\n"

// A live stream lasts longer than any of the limits: each of them ends what it is
// meant for and nothing else.
func TestNoLimitCutsALiveStream(t *testing.T) {
	g, a, b := pair(t, limits)
	inTurn([]*backend{a, b}, func(w http.ResponseWriter, r *http.Request, _ []byte) {
		pause := func(d time.Duration) bool {
			select {
			case <-time.After(d):
				return true
			case <-r.Context().Done():
				return false
			}
		}
		if !pause(1200 * time.Millisecond) { // longer than connecting may take
			return
		}
		w.Header().Set("Content-Type", eventStream)
		send(w, answerEvents[0])
		for range 16 { // 7.2 s, longer than a first token may take, or a gap
			if !pause(450 * time.Millisecond) {
				return
			}
			send(w, delta("word "))
		}
		send(w, "[DONE]")
	}, answer)
	r, err := g.fetch(http.DefaultClient, chatPath, chat(true, "", "hi"))
	if n := strings.Count(r.body, "word "); err != nil || n != 16 || !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
		t.Errorf("%d of 16 tokens came, the end was %v: %q", n, err, r.body)
	}
	if n := hits(a, b); n != 1 {
		t.Errorf("%d servers were asked, want 1", n)
	}
	g.ended(map[string]int{"served": 1})
}

// A stream that falls silent after its first token is cut after stall_timeout, at
// the server too. Comments are no tokens.
func TestAStreamThatStallsIsCut(t *testing.T) {
	const limit = 2 * time.Second
	beginning := strings.Join(events(answerEvents[:3]...), "")
	for _, protocol := range []string{"h1", "h2"} {
		for _, comments := range []bool{false, true} {
			if comments && protocol != "h1" {
				continue
			}
			t.Run(fmt.Sprintf("%s/comments %v", protocol, comments), func(t *testing.T) {
				a, b := newBackend(t), newBackend(t)
				silent := make(chan time.Duration, 2)
				inTurn([]*backend{a, b}, func(w http.ResponseWriter, r *http.Request, body []byte) {
					since := time.Now()
					plays(eventStream, events(answerEvents[:3]...), nil)(w, r, body)
					for comments && r.Context().Err() == nil {
						time.Sleep(50 * time.Millisecond) // the server's pace
						io.WriteString(w, ": ping\n\n")
						_ = http.NewResponseController(w).Flush()
					}
					<-r.Context().Done()
					silent <- time.Since(since)
				}, answer)
				g := secure(t, fmt.Sprintf("llm_proxy %s %s {\n%sstall_timeout %v\n}\n", a.addr(), b.addr(), fast, limit))
				r, err := g.fetch(g.over(t, protocol), chatPath, chat(true, "", "hi"))
				if got := strings.ReplaceAll(r.body, ": ping\n\n", ""); got != beginning || !brokenOff(protocol, err) {
					t.Errorf("the client got %q and %v, want what came and then a stream that is broken off", got, err)
				}
				if took := arrives(t, "the stream to end at the server", silent); took < limit || took > 3*limit {
					t.Errorf("the stream was cut after %v of silence, want %v", took, limit)
				}
				if n := hits(a, b); n != 1 {
					t.Errorf("%d servers were asked, want 1", n)
				}
				g.ended(map[string]int{"truncated": 1})
			})
		}
	}
}

// homes has the gateway learn n conversations of each of two servers, and returns
// their preambles.
func homes(g *gateway, n int) map[string][]string {
	g.t.Helper()
	at := map[string][]string{}
	for i := 0; len(at["a"]) < n || len(at["b"]) < n; i++ {
		if i == 100 {
			g.t.Fatalf("of %d conversations %d went to a and %d to b", i, len(at["a"]), len(at["b"]))
		}
		preamble := prose(fmt.Sprint("conversation ", i), 8000)
		r := g.post(chat(true, preamble, "first"))
		if len(at[r.endpoint()]) < n {
			at[r.endpoint()] = append(at[r.endpoint()], preamble)
		}
	}
	g.idle(g.t)
	return at
}

// One of two servers accepts requests and never answers. Ten requests come at
// once, five of conversations that are at home there.
func TestAServerThatAcceptsAndNeverAnswers(t *testing.T) {
	const limit = 4 * time.Second
	type ended struct {
		reply
		err  error
		took time.Duration
	}
	run := func(t *testing.T, options string) (g *gateway, atA, atB []ended, stuck int) {
		g, a, _ := pair(t, fmt.Sprintf("first_token %v %v\n%s", limit, limit, options))
		at := homes(g, 5)
		before := a.count()
		a.answers(func(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() })
		atA, atB = make([]ended, 5), make([]ended, 5)
		var all sync.WaitGroup
		ask := func(e *ended, preamble string) {
			began := time.Now()
			e.reply, e.err = g.fetch(http.DefaultClient, chatPath, chat(true, preamble, "second"))
			e.took = time.Since(began)
		}
		for i := range 5 {
			all.Go(func() { ask(&atA[i], at["a"][i]) })
			all.Go(func() { ask(&atB[i], at["b"][i]) })
		}
		all.Wait()
		return g, atA, atB, a.count() - before
	}
	good := func(t *testing.T, e ended) {
		t.Helper()
		if e.err != nil || e.status != http.StatusOK || e.body != streamed() || e.endpoint() != "b" {
			t.Errorf("status %d from %q, %v: %q; want the whole answer of the other server", e.status, e.endpoint(), e.err, e.body)
		}
	}
	t.Run("unsent", func(t *testing.T) {
		g, atA, atB, stuck := run(t, "failover unsent\n")
		late := 0
		for _, e := range append(atA, atB...) {
			if e.status != http.StatusGatewayTimeout {
				good(t, e)
				if e.took >= limit {
					t.Errorf("a request of the healthy server took %v, as long as one of the other", e.took)
				}
				continue
			}
			late++
			e.isError(t, http.StatusGatewayTimeout)
			if e.took < limit || e.took > 3*limit {
				t.Errorf("504 after %v, want %v", e.took, limit)
			}
		}
		if late == 0 || late != stuck {
			t.Errorf("%d requests came to the silent server, %d got 504", stuck, late)
		}
		if n := g.outcomes()["first_token_timeout"]; n != late {
			t.Errorf("%d first-token timeouts are counted, want %d", n, late)
		}
	})
	t.Run("no_token", func(t *testing.T) {
		g, atA, atB, stuck := run(t, "")
		for _, e := range append(atA, atB...) {
			good(t, e)
		}
		if stuck == 0 {
			t.Error("no request came to the silent server")
		}
		if n := g.outcomes()["first_token_timeout"]; n != stuck {
			t.Errorf("%d first-token timeouts are counted, want %d", n, stuck)
		}
	})
}

// Silence before the first token has no limit where the gate is off: the client
// has the headers, and decides itself.
func TestFirstTokenOffPassesSilenceOn(t *testing.T) {
	g, a, b := pair(t, "first_token off\n")
	next := make(chan struct{})
	inTurn([]*backend{a, b}, func(w http.ResponseWriter, r *http.Request, body []byte) {
		w.Header().Set("Content-Type", eventStream)
		_ = http.NewResponseController(w).Flush()
		waits(r, next)
	}, answer)
	res, err := http.Post(g.url+chatPath, "application/json", strings.NewReader(chat(true, "", "hi")))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	close(next)
	// An empty stream is no answer, and nothing can take its place any more.
	if got, err := io.ReadAll(res.Body); len(got) > 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the client got %q and %v, want a stream that is broken off", got, err)
	}
	if n := hits(a, b); n != 1 {
		t.Errorf("%d servers were asked, want 1", n)
	}
}
