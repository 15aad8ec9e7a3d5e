package admission

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A short overload is waited out: the client sees no more of it than the time it
// took, and the engine gets the whole body again.
func TestShortOverloadIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, new(Handler), "a")
		s.before = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("X-Between", "1")
			r.Header.Add("X-Seen", "1")
			r.URL.Path = "/prefixed" + r.URL.Path
		}
		s.attempt = func(a *played) *ending {
			if a.n == 1 {
				return busy(2 * time.Second)
			}
			ok(a)
			return nil
		}
		resp, body, err := s.post(t.Context(), plain)
		if err != nil || resp.StatusCode != http.StatusOK || body != `{"ok":true}` {
			t.Fatalf("got %d %s, %v", resp.StatusCode, body, err)
		}
		if s.took() != 2*time.Second || len(s.seen) != 2 || s.seen[1].call.Attempts != 2 {
			t.Errorf("%d attempts in %v, want 2 in 2s", len(s.seen), s.took())
		}
		if s.seen[1].body != plain {
			t.Errorf("the second attempt got the body %q", s.seen[1].body)
		}
		// What stands in between runs again, and finds what it found before.
		if got := resp.Header["X-Between"]; len(got) != 1 {
			t.Errorf("headers of the failed attempt are left: %v", got)
		}
		if got := s.seen[1].r.Header["X-Seen"]; len(got) != 1 || s.seen[1].path != "/prefixed"+chatPath {
			t.Errorf("the request was changed twice: %v %s", got, s.seen[1].path)
		}
	})
}

// What cannot be waited out is answered with what the server said, and with when
// to come back.
func TestOverloadThatCannotBeWaitedOut(t *testing.T) {
	for _, test := range []struct {
		name       string
		handler    Handler
		retries    int
		said       []time.Duration // Retry-After of each attempt
		took       time.Duration
		retryAfter string
	}{
		{"longer than max_wait", Handler{Queue: wait(5 * time.Second)}, 2, []time.Duration{20 * time.Second}, 0, "20"},
		{"longer than the default", Handler{}, 2, []time.Duration{31 * time.Second, 31 * time.Second}, 30 * time.Second, "30"},
		{"no waiting", Handler{Queue: wait(0)}, 2, []time.Duration{time.Second}, 0, "1"},
		{"no more attempts", Handler{}, 0, []time.Duration{time.Second}, 0, "1"},
		{"all waits together", Handler{Queue: wait(5 * time.Second)}, 9, []time.Duration{3 * time.Second, 3 * time.Second}, 3 * time.Second, "3"},
		{"attempts used up", Handler{}, 2, []time.Duration{time.Second, time.Second, 7 * time.Second}, 2 * time.Second, "7"},
		{"parts of a second", Handler{Queue: wait(time.Second)}, 2, []time.Duration{4100 * time.Millisecond}, 0, "5"},
		{"not said", Handler{Queue: wait(100 * time.Millisecond)}, 2, []time.Duration{0}, 0, "1"},
		{"site answers errors", Handler{Queue: wait(0), Errors: pass}, 2, []time.Duration{time.Second}, 0, "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, &test.handler, "a")
				s.settings.Retries = test.retries
				s.attempt = func(a *played) *ending { return busy(test.said[a.n-1]) }
				resp, body, err := s.post(t.Context(), plain)
				if err != nil || resp.StatusCode != http.StatusServiceUnavailable || body != `{"error":"queue  full"}` {
					t.Fatalf("got %d %s, %v; want the server's own answer", resp.StatusCode, body, err)
				}
				if got := resp.Header.Get("Retry-After"); got != test.retryAfter {
					t.Errorf("Retry-After is %q, want %q", got, test.retryAfter)
				}
				if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
					t.Errorf("the type is %q", got)
				}
				if s.took() != test.took || len(s.seen) != len(test.said) {
					t.Errorf("%d attempts in %v, want %d in %v", len(s.seen), s.took(), len(test.said), test.took)
				}
				if got := resp.Header.Get("X-LLM-Attempts"); got != string(rune('0'+len(test.said))) || resp.Header.Get("X-LLM-Endpoint") != "a" {
					t.Errorf("the answer says it is of attempt %q at %q", got, resp.Header.Get("X-LLM-Endpoint"))
				}
			})
		})
	}
}

// Of two servers that refuse, the client hears of the one that takes work sooner.
func TestSmallestRetryAfterIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, &Handler{Queue: wait(time.Second)}, "a", "b")
		s.attempt = func(a *played) *ending { return busy(time.Duration(12-4*a.n) * time.Second) }
		resp, body, _ := s.post(t.Context(), plain)
		if got := resp.Header.Get("Retry-After"); got != "4" || len(s.seen) != 2 {
			t.Errorf("after %d attempts Retry-After is %q, want 4: %s", len(s.seen), got, body)
		}
	})
}

// A pool that others have overloaded is waited for before anything is sent, or
// the client is told when to come back.
func TestOverloadedPool(t *testing.T) {
	for _, test := range []struct {
		name  string
		queue *Queue
		took  time.Duration
		want  int
	}{
		{"short", nil, 1200 * time.Millisecond, http.StatusOK},
		{"too long", wait(time.Second), 0, http.StatusTooManyRequests},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, &Handler{Queue: test.queue}, "a")
				s.attempt = func(a *played) *ending { ok(a); return nil }
				s.endpoint("a").NoteOverload(time.Now(), 1200*time.Millisecond)
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(plain))
				if err := s.handler.ServeHTTP(w, r, s); err != nil {
					t.Fatal(err)
				}
				if w.Code != test.want || s.took() != test.took {
					t.Fatalf("got %d %s after %v", w.Code, w.Body, s.took())
				}
				if test.want == http.StatusOK {
					return
				}
				wantError(t, w.Result(), w.Body.String(), test.want, "overloaded")
				if got := w.Header().Get("Retry-After"); got != "2" || s.passes != 0 {
					t.Errorf("Retry-After is %q, and the proxy was asked %d times", got, s.passes)
				}
			})
		})
	}
}

// A client that leaves while its call waits is forgotten at once.
func TestClientLeavesWhileWaiting(t *testing.T) {
	for _, test := range []struct {
		name    string
		attempt bool // before the wait
	}{{"before an attempt", false}, {"after one", true}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, new(Handler), "a")
				var call *llmlb.Call
				s.attempt = func(a *played) *ending {
					call = a.call
					return busy(8 * time.Second)
				}
				if !test.attempt {
					s.endpoint("a").NoteOverload(time.Now(), 8*time.Second)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				resp, body, err := s.post(ctx, plain)
				if err != nil || resp.StatusCode != statusClientGone || body != "" {
					t.Errorf("got %d %q, %v", resp.StatusCode, body, err)
				}
				if s.took() != 3*time.Second {
					t.Errorf("it took %v until the client was missed", s.took())
				}
				if test.attempt && call.Outcome != llmlb.ClientGone {
					t.Errorf("the outcome is %v", call.Outcome)
				}
				time.Sleep(time.Minute)
				if want := map[bool]int{true: 1}[test.attempt]; len(s.seen) != want {
					t.Errorf("%d attempts were made, want %d", len(s.seen), want)
				}
			})
		})
	}
}

// Attempts that failed without a word, or that could not be made, are told in our
// own words, with the status that says what happened.
func TestFailuresWithoutAnAnswer(t *testing.T) {
	for _, test := range []struct {
		name   string
		ends   []llmlb.Outcome // of the attempts at a and b, none for a pool that is drained
		busy   bool            // b had too much to do before
		status int
		code   string
	}{
		{"silence", []llmlb.Outcome{llmlb.FirstTokenTimeout, llmlb.FirstTokenTimeout}, false, 504, "upstream_timeout"},
		{"no connection", []llmlb.Outcome{llmlb.Unreachable, llmlb.Unreachable}, false, 502, "upstream_error"},
		{"silence, then no connection", []llmlb.Outcome{llmlb.FirstTokenTimeout, llmlb.Unreachable}, false, 502, "upstream_error"},
		{"broke off", []llmlb.Outcome{llmlb.EngineError, llmlb.EngineError}, false, 502, "upstream_error"},
		{"no connection, the other overloaded", []llmlb.Outcome{llmlb.Unreachable}, true, 429, "overloaded"},
		{"broke off, the other overloaded", []llmlb.Outcome{llmlb.EngineError}, true, 502, "upstream_error"},
		{"nobody", nil, false, 503, "no_endpoint"},
	} {
		for _, who := range []string{write, pass} {
			t.Run(test.name+" "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStage(t, &Handler{Errors: who, Queue: wait(time.Second)}, "a", "b")
					s.attempt = func(a *played) *ending { return &ending{outcome: test.ends[a.n-1]} }
					if test.busy {
						s.endpoint("b").NoteOverload(time.Now(), 9*time.Second)
					}
					if test.ends == nil {
						s.settings.Members = nil // Select finds nobody either
						s.attempt = nil
					}
					s.before = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Between", "1") }
					resp, body, err := s.post(t.Context(), plain)
					if len(s.seen) != len(test.ends) {
						t.Errorf("%d attempts, want %d", len(s.seen), len(test.ends))
					}
					if resp.Header.Get("X-Between") != "" {
						t.Error("a header of the failed attempt is left")
					}
					if who == pass {
						he, isError := errors.AsType[caddyhttp.HandlerError](err)
						if !isError || he.StatusCode != test.status {
							t.Errorf("the site's routes get %v, want %d", err, test.status)
						}
						return
					}
					wantError(t, resp, body, test.status, test.code)
					for _, leak := range []string{"8000", "dialing", "refused", "upstreams"} {
						if strings.Contains(body, leak) {
							t.Errorf("the answer tells %q: %s", leak, body)
						}
					}
				})
			})
		}
	}
}

// What a broken engine said reaches the client when nobody has better to offer;
// that one is overloaded is better.
func TestWhatAServerSaidIsTheAnswer(t *testing.T) {
	for _, test := range []struct {
		name string
		ends []*ending
		want string
	}{
		{"all broken", []*ending{broken(), broken()}, "500 CUDA error"},
		{"one overloaded", []*ending{busy(9 * time.Second), broken()}, `503 {"error":"queue  full"}`},
		{"then no connection", []*ending{broken(), {outcome: llmlb.Unreachable}}, "500 CUDA error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, &Handler{Queue: wait(time.Second)}, "a", "b")
				s.attempt = func(a *played) *ending { return test.ends[a.n-1] }
				resp, body, err := s.post(t.Context(), plain)
				if got := resp.Status[:3] + " " + body; err != nil || got != test.want {
					t.Errorf("got %s, %v; want %s", got, err, test.want)
				}
			})
		})
	}
}

// Of an answer that did not come whole only the status is known, and put in our
// own words.
func TestAnswerOfWhichOnlyTheStatusIsKnown(t *testing.T) {
	for _, test := range []struct {
		kept   llmlb.Kept
		status int
		code   string
	}{
		{llmlb.Kept{Outcome: llmlb.Overloaded, Status: 529, RetryAfter: 3 * time.Second}, 529, "overloaded"},
		{llmlb.Kept{Outcome: llmlb.EngineError, Status: 507}, 507, "upstream_error"},
		{llmlb.Kept{Outcome: llmlb.EngineError, Status: 200}, 502, "upstream_error"},
		{llmlb.Kept{Outcome: llmlb.Overloaded}, 503, "overloaded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, &Handler{Queue: wait(0)}, "a")
			s.attempt = func(*played) *ending { return &ending{test.kept.Outcome, &test.kept} }
			resp, body, _ := s.post(t.Context(), plain)
			wantError(t, resp, body, test.status, test.code)
			if told := resp.Header.Get("Retry-After") != ""; told != (test.kept.Outcome == llmlb.Overloaded) {
				t.Errorf("%d: told when to come back: %v", test.kept.Status, told)
			}
		})
	}
}

// An error of a handler in between is the site's to answer, and nothing is tried
// again for it.
func TestErrorsOfOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, new(Handler), "a")
		refusing := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			return caddyhttp.Error(http.StatusForbidden, errors.New("no"))
		})
		w := httptest.NewRecorder()
		err := s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(plain)), refusing)
		if he, isError := errors.AsType[caddyhttp.HandlerError](err); !isError || he.StatusCode != http.StatusForbidden {
			t.Errorf("got %v", err)
		}
		s.calm()
		if n := s.endpoint("a").Ended(llmlb.Unreachable); n != 0 {
			t.Error("the endpoint is blamed for it")
		}
	})
}
