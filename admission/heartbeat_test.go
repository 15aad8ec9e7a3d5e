package admission

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const beat = ": keep-alive"

func beatingEvery(d time.Duration) *Handler { return &Handler{Heartbeat: caddy.Duration(d)} }

// watch sends a streaming request and returns what the client saw of it.
func (s *stage) watch(ctx context.Context, body string) (*screen, error) {
	w := newScreen()
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(body)).WithContext(ctx)
	err := s.handler.ServeHTTP(w, r, s)
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	s.calm()
	return w, err
}

func (s *screen) want(t *testing.T, status int, lines ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status != status || !slices.Equal(s.lines, lines) {
		t.Errorf("the client saw %d %q,\nwant %d %q", s.status, s.lines, status, lines)
	}
	if s.flushed != len(s.lines) && strings.HasSuffix(lines[0], beat) {
		t.Errorf("%d writes of %d were flushed", s.flushed, len(s.lines))
	}
}

func stream(a *played, events ...string) {
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	a.w.Header().Set("X-Engine", "1")
	a.w.WriteHeader(http.StatusOK)
	for _, e := range events {
		_, _ = io.WriteString(a.w, "data: "+e+"\n\n")
		_ = http.NewResponseController(a.w).Flush()
	}
}

// While nothing comes the client gets comments, through a failed attempt and a
// wait too. They end where the answer begins, which comes as it is.
func TestHeartbeatUntilTheAnswerBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, beatingEvery(2*time.Second), "a")
		s.attempt = func(a *played) *ending {
			time.Sleep(2500 * time.Millisecond)
			if a.n == 1 {
				a.w.Header().Set("X-Failed", "1")
				return busy(2 * time.Second)
			}
			stream(a, "one")
			time.Sleep(5 * time.Second)
			stream(a, "two", "[DONE]")
			time.Sleep(5 * time.Second)
			return nil
		}
		w, err := s.watch(t.Context(), streamed)
		if err != nil {
			t.Fatal(err)
		}
		w.want(t, http.StatusOK, "2s "+beat, "4s "+beat, "6s "+beat, "7s data: one", "12s data: two", "12s data: [DONE]")
		for name, want := range map[string]string{
			"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no", "X-Engine": "", "X-Failed": "",
		} {
			if got := w.sent.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}

// A call that waits before its first attempt is kept company too.
func TestHeartbeatWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, beatingEvery(time.Second), "a")
		s.endpoint("a").NoteOverload(time.Now(), 2500*time.Millisecond)
		s.attempt = func(a *played) *ending { stream(a, "[DONE]"); return nil }
		w, _ := s.watch(t.Context(), streamed)
		w.want(t, http.StatusOK, "1s "+beat, "2s "+beat, "2.5s data: [DONE]")
	})
}

// An answer that comes before the first beat is as it would be without.
func TestHeartbeatIsNotSeenInTime(t *testing.T) {
	for _, test := range []struct {
		name   string
		body   string
		after  time.Duration
		answer func(a *played) *ending
		status int
		lines  []string
		header string
	}{
		{"a stream", streamed, 0, func(a *played) *ending { stream(a, "one"); return nil }, 200, []string{"0s data: one"}, "text/event-stream; charset=utf-8"},
		{"an error", streamed, 0, func(*played) *ending { return broken() }, 500, []string{"0s CUDA error"}, "text/plain"},
		{"an error of ours", streamed, 0, func(*played) *ending { return &ending{outcome: llmlb.Unreachable} }, 502, []string{
			`0s {"error":{"message":"The inference server failed to answer.","type":"server_error","param":null,"code":"upstream_error"}}`,
		}, "application/json"},
		{"no stream asked for", plain, time.Minute, func(a *played) *ending { ok(a); return nil }, 200, []string{`1m0s {"ok":true}`}, "application/json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, beatingEvery(time.Second), "a")
				s.attempt = func(a *played) *ending {
					time.Sleep(test.after)
					return test.answer(a)
				}
				w, err := s.watch(t.Context(), test.body)
				time.Sleep(time.Hour)
				w.want(t, test.status, test.lines...)
				if got := w.sent.Get("Content-Type"); got != test.header || err != nil {
					t.Errorf("the type is %q, and the handler returned %v", got, err)
				}
			})
		})
	}
}

// After a beat every other ending is one event and the end of the stream: it
// tells what the server said, as far as that can be read.
func TestErrorsAfterABeatAreEvents(t *testing.T) {
	answers := func(status int, kind, body string, more ...string) func(*played) *ending {
		return func(a *played) *ending {
			a.w.Header().Set("Content-Type", kind)
			for _, h := range more {
				name, value, _ := strings.Cut(h, ": ")
				a.w.Header().Set(name, value)
			}
			a.w.WriteHeader(status)
			_, _ = io.WriteString(a.w, body)
			return nil
		}
	}
	fails := func(o llmlb.Outcome) func(*played) *ending {
		return func(*played) *ending { return &ending{outcome: o} }
	}
	const failedWords = "The inference server failed to answer."
	for _, test := range []struct {
		name    string
		attempt func(*played) *ending
		want    []string // of the event
	}{
		{"kept", func(*played) *ending { return busy(time.Hour) }, []string{"queue  full"}},
		{"kept without JSON", func(*played) *ending { return broken() }, []string{failedWords}},
		{"passed on", answers(400, "application/json", `{"error":{"message":"too \"long\"","type":"BadRequestError","code":"context_length"}}`), []string{`too \"long\"`, "BadRequestError", "context_length"}},
		{"passed on, bare", answers(422, "application/json", `{"object":"error","message":"nonsense"}`), []string{"nonsense", "invalid_request_error"}},
		{"passed on, TGI", answers(422, "application/json", `{"error":"too long","error_type":"validation"}`), []string{"too long", `"type":"validation"`, `"code":422`}},
		{"passed on, detail", answers(500, "application/json", `{"detail":"boom"}`), []string{"boom", "server_error"}},
		{"passed on, nothing to read", answers(404, "text/html", `<h1>no`), []string{"refused the request"}},
		{"passed on, endless", answers(500, "application/json", `{"detail":"boom","x":"`+strings.Repeat("x", 100<<10)+`"}`), []string{failedWords}},
		{"no stream", answers(200, "application/json", `{"message":"hello"}`), []string{"answered in one piece", "not_a_stream"}},
		{"compressed", answers(200, "text/event-stream", "\x1f\x8b", "Content-Encoding: gzip"), []string{"answered in one piece"}},
		{"silence", fails(llmlb.FirstTokenTimeout), []string{"did not answer in time", "upstream_timeout"}},
		{"no connection", fails(llmlb.Unreachable), []string{failedWords, "upstream_error"}},
	} {
		for _, who := range []string{write, pass} {
			t.Run(test.name+" "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := beatingEvery(time.Second)
					h.Errors = who
					s := newStage(t, h, "a")
					s.attempt = func(a *played) *ending {
						time.Sleep(1500 * time.Millisecond)
						return test.attempt(a)
					}
					w, err := s.watch(t.Context(), streamed)
					if err != nil || w.status != http.StatusOK || len(w.lines) != 2 || w.lines[0] != "1s "+beat || w.flushed != 2 {
						t.Fatalf("the client saw %d %q, and the handler returned %v", w.status, w.lines, err)
					}
					event := w.lines[1]
					if !strings.HasPrefix(event, `1.5s data: {"error":{`) || !strings.HasSuffix(event, "}}\n\ndata: [DONE]") || strings.Count(event, "data:") != 2 {
						t.Errorf("%q is not one event and the end", event)
					}
					for _, want := range test.want {
						if !strings.Contains(event, want) {
							t.Errorf("%q does not tell %q", event, want)
						}
					}
				})
			})
		}
	}
}

// Errors of handlers in between, and no answer at all, are told as well.
func TestOthersErrorsAfterABeatAreEvents(t *testing.T) {
	for name, err := range map[string]error{"an error": caddyhttp.Error(http.StatusForbidden, errors.New("secret")), "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, beatingEvery(time.Second), "a")
				w := newScreen()
				r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(streamed))
				got := s.handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
					time.Sleep(1500 * time.Millisecond)
					return err
				}))
				if got != nil || len(w.lines) != 2 || !strings.Contains(w.lines[1], "error") || strings.Contains(w.lines[1], "secret") {
					t.Errorf("the client saw %q, and the handler returned %v", w.lines, got)
				}
			})
		})
	}
}

// A client that leaves while it is kept company ends the call, also when only a
// failed write shows it.
func TestClientLeavesBetweenBeats(t *testing.T) {
	for _, test := range []struct {
		name string
		fail error
		took time.Duration
	}{{"closed", nil, 2500 * time.Millisecond}, {"found by a beat", errors.New("broken pipe"), 3 * time.Second}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, beatingEvery(time.Second), "a", "b")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := newScreen()
				time.AfterFunc(2500*time.Millisecond, func() {
					if test.fail == nil {
						cancel()
					}
					w.mu.Lock()
					w.fail = test.fail
					w.mu.Unlock()
				})
				s.attempt = func(a *played) *ending {
					<-a.r.Context().Done()
					return &ending{outcome: llmlb.ClientGone}
				}
				r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(streamed)).WithContext(ctx)
				if err := s.handler.ServeHTTP(w, r, s); err != nil {
					t.Error(err)
				}
				w.want(t, http.StatusOK, "1s "+beat, "2s "+beat)
				if s.took() != test.took || len(s.seen) != 1 {
					t.Errorf("%d attempts in %v, want 1 in %v", len(s.seen), s.took(), test.took)
				}
			})
		})
	}
}

// When everything breaks off, so do the beats, and nothing is written after the
// handler has gone. The bubble of the test would not end with a goroutine left.
func TestPanicEndsTheBeats(t *testing.T) {
	for _, begun := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, beatingEvery(time.Second), "a")
			w := newScreen()
			s.attempt = func(a *played) *ending {
				time.Sleep(1500 * time.Millisecond)
				if begun {
					stream(a, "one")
				}
				panic(http.ErrAbortHandler)
			}
			func() {
				defer func() {
					if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // the very value is what net/http looks for
						t.Errorf("the panic became %v", got)
					}
				}()
				_ = s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(streamed)), s)
			}()
			w.ended = true
			time.Sleep(time.Minute)
			if w.after > 0 {
				t.Errorf("%d writes came after the end", w.after)
			}
			s.calm()
			if want := map[bool]llmlb.Outcome{true: llmlb.Truncated, false: llmlb.EngineError}[begun]; s.endpoint("a").Ended(want) != 1 {
				t.Errorf("the attempt is not counted as %v", want)
			}
		})
	}
}

// The answer's writer and the beats take turns, also when both wake at the same
// moment: the client never gets a comment after the first byte of the answer.
func TestNoBeatAfterTheHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := 0
		for range 200 {
			w := newScreen()
			b := startHeartbeat(w, httptest.NewRequest(http.MethodPost, chatPath, nil), "chat", minHeartbeat)
			time.Sleep(2 * minHeartbeat)
			b.Header().Set("Content-Type", eventStream)
			for range 20 {
				_, _ = io.WriteString(b, "data: x\n\n")
				_ = http.NewResponseController(b).Flush()
			}
			b.end(true)
			at := slices.IndexFunc(w.lines, func(l string) bool { return strings.HasSuffix(l, "data: x") })
			for _, l := range w.lines[at:] {
				if strings.HasSuffix(l, beat) {
					t.Fatalf("a comment came after the answer began: %q", w.lines)
				}
			}
			if len(w.lines)-at != 20 {
				t.Fatalf("%d events of 20 came", len(w.lines)-at)
			}
			before += at
		}
		if before < 200 {
			t.Errorf("%d comments came before 200 answers", before)
		}
	})
}
