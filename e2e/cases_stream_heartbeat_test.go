package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// listening is a client that reads a stream event by event.
type listening struct {
	t   *testing.T
	res *http.Response
	in  *bufio.Reader
}

// listens sends a request; headers come with the first beat.
func (g *gateway) listens(t *testing.T, client *http.Client) *listening {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+chatPath, strings.NewReader(chat(true, "", "hi")))
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return &listening{t: t, res: res, in: bufio.NewReader(res.Body)}
}

// event reads up to the next blank line.
func (l *listening) event() (string, error) {
	var event strings.Builder
	for {
		line, err := l.in.ReadString('\n')
		event.WriteString(line)
		if err != nil || line == "\n" {
			return event.String(), err
		}
	}
}

// beat reads an event that must be a comment.
func (l *listening) beat() {
	l.t.Helper()
	if e, err := l.event(); err != nil || !strings.HasPrefix(e, ":") {
		l.t.Fatalf("read %q, %v; want a comment", e, err)
	}
}

// rest reads all that follows, but for the comments it begins with.
func (l *listening) rest() (string, error) {
	text, err := io.ReadAll(l.in)
	return withoutComments(string(text)), err
}

// With a heartbeat the client has its headers and comments while it waits. Behind
// it one server breaks off before its first token, another fails, and the third
// answers.
func TestFailoverGoesOnBehindAHeartbeat(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			list := []*backend{newBackend(t), newBackend(t), newBackend(t)}
			next := make(chan struct{})
			inTurn(list,
				plays(eventStream, events(answerEvents[0]), func(w http.ResponseWriter, r *http.Request) { waits(r, next); breaks(w, r) }),
				func(w http.ResponseWriter, r *http.Request, _ []byte) {
					waits(r, next)
					w.WriteHeader(http.StatusInternalServerError)
				},
				func(w http.ResponseWriter, r *http.Request, body []byte) { waits(r, next); answer(w, r, body) })
			log := newJournal(t)
			g := secure(t, log.directive()+fmt.Sprintf("llm_proxy %s %s %s {\n%sheartbeat 50ms\n%s}\n",
				list[0].addr(), list[1].addr(), list[2].addr(), fast, patient))
			l := g.listens(t, g.over(t, protocol))
			if l.res.StatusCode != http.StatusOK || l.res.Header.Get("Content-Type") != eventStream {
				t.Errorf("status %d, %q", l.res.StatusCode, l.res.Header)
			}
			l.beat()
			next <- struct{}{}
			eventually(t, "a second server to be asked", func() bool { return hits(list...) == 2 })
			l.beat()
			next <- struct{}{}
			eventually(t, "a third server to be asked", func() bool { return hits(list...) == 3 })
			l.beat()
			next <- struct{}{}
			if got, err := l.rest(); err != nil || got != streamed() {
				t.Errorf("after the comments: %q, %v; want %q", got, err, streamed())
			}
			entry := log.entries(t, 1)[0]
			if entry["llm_attempts"] != 3.0 || entry["llm_outcome"] != "served" {
				t.Errorf("the log says %v", entry)
			}
			g.ended(map[string]int{"engine_error": 2, "served": 1})
		})
	}
}

// After a beat nobody can have another status: an answer that is none becomes one
// error event and the end of the stream. The log keeps the status.
func TestAFinalErrorBehindAHeartbeat(t *testing.T) {
	for _, tc := range []struct {
		status  int
		outcome string
	}{{http.StatusServiceUnavailable, "overloaded"}, {http.StatusInternalServerError, "engine_error"}, {http.StatusBadRequest, "served"}} {
		t.Run(http.StatusText(tc.status), func(t *testing.T) {
			a, b := newBackend(t), newBackend(t)
			next := make(chan struct{})
			refuse := func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.status)
				fmt.Fprintf(w, `{"error":{"message":"the engine's words","type":"x","code":%d}}`, tc.status)
			}
			inTurn([]*backend{a, b}, func(w http.ResponseWriter, r *http.Request, body []byte) {
				waits(r, next)
				refuse(w, r, body)
			}, refuse)
			log := newJournal(t)
			g := start(t, log.directive()+fmt.Sprintf("llm_proxy %s %s {\n%sheartbeat 50ms\n%squeue {\nmax_wait 0\n}\n}\n", a.addr(), b.addr(), fast, patient))
			l := g.listens(t, http.DefaultClient)
			l.beat()
			close(next)
			got, err := l.rest()
			if err != nil {
				t.Errorf("the stream broke off: %v", err)
			}
			data, found := strings.CutPrefix(got, "data: ")
			data, end, _ := strings.Cut(data, "\n\n")
			var event struct{ Error struct{ Message string } }
			if err := json.Unmarshal([]byte(data), &event); err != nil || !found || event.Error.Message == "" {
				t.Errorf("the client got %q, want an error event first", got)
			}
			if end != "data: [DONE]\n\n" {
				t.Errorf("after the error event: %q, want the end of the stream", end)
			}
			entry := log.entries(t, 1)[0]
			if entry["status"] != 200.0 || entry["llm_status"] != float64(tc.status) {
				t.Errorf("the log says status %v and llm_status %v, want 200 and %d", entry["status"], entry["llm_status"], tc.status)
			}
			want := map[string]int{tc.outcome: 2}
			if tc.outcome == "served" {
				want[tc.outcome] = 1 // the client's own mistake is not tried again
			}
			g.ended(want)
		})
	}
}

// An answer that begins before the first beat is as if there were none: with its
// own status and without comments.
func TestAnAnswerBeforeTheFirstBeat(t *testing.T) {
	g, a, b := pair(t, "heartbeat 5m\n")
	if r := g.post(chat(true, "", "hi")); r.status != http.StatusOK || r.body != streamed() || r.endpoint() == "" {
		t.Errorf("status %d from %q: %q", r.status, r.endpoint(), r.body)
	}
	if r := g.post(chat(false, "", "hi")); r.status != http.StatusOK || !strings.Contains(r.body, "hello") {
		t.Errorf("status %d: %q", r.status, r.body)
	}
	inTurn([]*backend{a, b}, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":{"message":"no"}}`)
	})
	r := g.post(chat(true, "", "hi"))
	r.isError(t, http.StatusBadRequest)
}

// A stream that is cut behind a heartbeat is cut.
func TestAHeartbeatInventsNoEnd(t *testing.T) {
	g, a, b := pair(t, "heartbeat 50ms\n"+patient)
	next := make(chan struct{})
	inTurn([]*backend{a, b}, func(w http.ResponseWriter, r *http.Request, body []byte) {
		waits(r, next)
		plays(eventStream, events(answerEvents[:3]...), nil)(w, r, body)
	}, answer)
	l := g.listens(t, http.DefaultClient)
	l.beat()
	close(next)
	got, err := l.rest()
	if want := strings.Join(events(answerEvents[:3]...), ""); got != want || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the client got %q and %v, want %q and no clean end", got, err, want)
	}
	g.ended(map[string]int{"truncated": 1})
}

// A client that leaves while it only hears the heartbeat ends its request.
func TestAClientThatLeavesBehindAHeartbeat(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			a, b := newBackend(t), newBackend(t)
			gone := make(chan time.Time, 4)
			inTurn([]*backend{a, b}, func(_ http.ResponseWriter, r *http.Request, _ []byte) {
				<-r.Context().Done()
				gone <- time.Now()
			})
			log := newJournal(t)
			g := secure(t, log.directive()+fmt.Sprintf("llm_proxy %s %s {\n%sheartbeat 50ms\n%s}\n", a.addr(), b.addr(), fast, patient))
			l := g.listens(t, g.over(t, protocol))
			l.beat()
			eventually(t, "the request to reach a server", func() bool { return hits(a, b) == 1 })
			l.res.Body.Close()
			arrives(t, "the request to end at the server", gone)
			entry := log.entries(t, 1)[0]
			if entry["llm_outcome"] != "client_gone" || entry["llm_aborted"] != "client" || entry["status"] != 200.0 {
				t.Errorf("the log says %v", entry)
			}
			if n := hits(a, b); n != 1 {
				t.Errorf("%d attempts, want 1", n)
			}
			g.ended(map[string]int{"client_gone": 1})
		})
	}
}

// Silence has its limit behind a heartbeat too.
func TestSilenceEndsBehindAHeartbeat(t *testing.T) {
	g, a, b := pair(t, "heartbeat 50ms\nfirst_token 2s 2s\n")
	inTurn([]*backend{a, b}, func(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() }, answer)
	l := g.listens(t, http.DefaultClient)
	l.beat()
	if got, err := l.rest(); err != nil || got != streamed() {
		t.Errorf("after the comments: %q, %v; want %q", got, err, streamed())
	}
	g.ended(map[string]int{"first_token_timeout": 1, "served": 1})
}
