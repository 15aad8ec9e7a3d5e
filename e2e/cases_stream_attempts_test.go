package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// An attempt that is given up has ended at its server before the next one's answer
// begins: here the next server says nothing until the one before has seen its
// request end. A gateway that ended attempts only when it had an answer would
// never get one.
func TestAnAttemptEndsBeforeTheNextOneAnswers(t *testing.T) {
	for name, fail := range map[string]struct {
		options string
		begin   part // what comes before the silence
	}{
		"silence": {"first_token 2s 2s\n", func(http.ResponseWriter, *http.Request, []byte) {}},
		"headers and silence": {"first_token 2s 2s\n", plays(eventStream, nil, func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
		})},
		"a role and silence": {"first_token 2s 2s\n", plays(eventStream, events(answerEvents[0]), nil)},
		"an error event":     {"", plays(eventStream, events(`{"error":{"message":"boom","code":500}}`), nil)},
		"an overload event":  {"", plays(eventStream, events(`{"error":{"message":"full","code":503}}`), nil)},
	} {
		for _, protocol := range []string{"h1", "h2"} {
			if protocol != "h1" && name != "a role and silence" {
				continue
			}
			t.Run(name+"/"+protocol, func(t *testing.T) {
				a, b := newBackend(t), newBackend(t)
				ended := make(chan time.Time, 2)
				inTurn([]*backend{a, b}, func(w http.ResponseWriter, r *http.Request, body []byte) {
					fail.begin(w, r, body)
					<-r.Context().Done()
					ended <- time.Now()
				}, func(w http.ResponseWriter, r *http.Request, body []byte) {
					select {
					case at := <-ended:
						if began := time.Now(); began.Before(at) {
							t.Errorf("the answer began at %v, the attempt before ended at %v", began, at)
						}
						answer(w, r, body)
					case <-r.Context().Done():
					}
				})
				g := secure(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s}\n", a.addr(), b.addr(), fast, fail.options))
				r, err := g.fetch(g.over(t, protocol), chatPath, chat(true, "", "hi"))
				if err != nil || r.status != http.StatusOK || r.body != streamed() {
					t.Errorf("status %d, %v: %q; the attempt before was not ended", r.status, err, r.body)
				}
				if n := hits(a, b); n != 2 {
					t.Errorf("%d attempts, want 2", n)
				}
			})
		}
	}
}

// failing are the ways in which every server may fail every request.
var failingParts = map[string]part{
	"500":             func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusInternalServerError) },
	"an error event":  plays(eventStream, events(`{"error":{"message":"boom","code":500}}`), nil),
	"an empty stream": plays(eventStream, nil, nil),
}

// However many servers there are, a request is tried 1 + retries times, and what
// it gets in the end is one answer.
func TestAttemptsNeverExceedRetries(t *testing.T) {
	for name, fail := range failingParts {
		for _, retries := range []int{0, 1, 2, 4} {
			t.Run(fmt.Sprintf("%s/%d", name, retries), func(t *testing.T) {
				list := make([]*backend, 6)
				var upstreams strings.Builder
				for i := range list {
					list[i] = newBackend(t)
					list[i].answers(fail)
					fmt.Fprintf(&upstreams, " %s", list[i].addr())
				}
				log := newJournal(t)
				g := start(t, log.directive()+fmt.Sprintf("llm_proxy%s {\n%sretries %d\n}\n", upstreams.String(), fast, retries))
				r, err := g.fetch(http.DefaultClient, chatPath, chat(true, "", "hi"))
				if err != nil || r.status < http.StatusInternalServerError {
					t.Errorf("status %d, %v: %q; want an error", r.status, err, r.body)
				}
				entry := log.entries(t, 1)[0]
				if n := hits(list...); n != 1+retries || entry["llm_attempts"] != float64(n) {
					t.Errorf("%d attempts, %v in the log, want %d", n, entry["llm_attempts"], 1+retries)
				}
				for i, b := range list {
					if n := b.count(); n > 1 {
						t.Errorf("server %d was asked %d times", i, n)
					}
				}
			})
		}
	}
}

// Every server fails every request, and no circuit opens. Retries stay within the
// budget: a fifth of the latest calls, ten, and as many as are open.
func TestRetriesStayWithinTheBudget(t *testing.T) {
	const calls, clients, retries = 240, 4, 2
	list := []*backend{newBackend(t), newBackend(t), newBackend(t)}
	var upstreams strings.Builder
	for _, b := range list {
		b.answers(failingParts["500"])
		fmt.Fprintf(&upstreams, " %s", b.addr())
	}
	g := start(t, fmt.Sprintf("llm_proxy%s {\n%sretries %d\ncircuit off\n}\n", upstreams.String(), fast, retries))
	began := time.Now()
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for i := range calls / clients {
				if r, err := g.ask(http.DefaultClient, distinct(client*calls+i)); err != nil || r.status != http.StatusInternalServerError {
					t.Errorf("status %d, %v, want the server's own 500", r.status, err)
				}
			}
		})
	}
	all.Wait()
	// What was spent comes back by half in ten seconds, so that a slow machine
	// may send some more.
	at := calls/5 + 10.0 + clients
	most := calls + int(at*(1+0.07*time.Since(began).Seconds())) + 1
	n := hits(list...)
	t.Logf("%d attempts for %d calls in %v, %d may be", n, calls, time.Since(began), most)
	if n > most {
		t.Errorf("%d attempts for %d calls, want %d at most", n, calls, most)
	}
	if n < calls+10 {
		t.Errorf("%d attempts for %d calls: nothing was tried again", n, calls)
	}
}
