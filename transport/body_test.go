package transport

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A stream without its finish marker is never given a clean end, and one that
// has it always is; every byte is the server's either way.
func TestAStreamEndsAsItEnded(t *testing.T) {
	half := hello[:len(hello)/2]
	for _, test := range []struct {
		name, stream string
		outcome      llmlb.Outcome
		clean        bool
	}{
		{"a whole one", events(role, hello, stop, done), llmlb.Served, true},
		{"a finish reason and no [DONE]", events(role, hello, stop), llmlb.Served, true},
		{"[DONE] and no finish reason", events(role, hello, done), llmlb.Served, true},
		{"usage after the end", events(role, hello, stop, done, counted), llmlb.Served, true},
		{"no last blank line", strings.TrimSuffix(events(role, hello, stop, done), "\n\n"), llmlb.Served, true},
		{"a bad event in the middle", events(role, hello) + "data: {\"bro\n\n" + events(hello, stop, done), llmlb.Served, true},
		{"neither", events(role, hello, hello), llmlb.Truncated, false},
		{"cut within an event", events(role, hello) + "data: " + half, llmlb.Truncated, false},
		{"an error after a token", events(role, hello, boom), llmlb.EngineError, true},
		{"an error after a token, and [DONE]", events(role, hello, boom, done), llmlb.EngineError, true},
		{"a mistake of the client's, told late", events(role, hello) + events(`{"error":{"message":"too long","type":"BadRequestError","code":400}}`), llmlb.Served, true},
		{"too much to do after a token", events(role, hello, full, done), llmlb.Overloaded, true},
	} {
		for _, event := range []string{off, on} {
			t.Run(test.name+"/error_event "+event, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, provisioned(t, `{"error_event":"`+event+`"}`), "10.0.0.1:8000")
					w.against(&engine{pieces: []said{{0, sseHead + test.stream}}, hangup: true})
					c := w.answering()
					_, got, err := w.do(c)
					if (err == nil) != test.clean {
						t.Errorf("the stream ended with %v", err)
					}
					want := test.stream
					if event == on && !test.clean {
						rest, found := strings.CutPrefix(got, want)
						if !found || !strings.HasPrefix(strings.TrimLeft(rest, "\n"), "data: {\"error\":{") || strings.Contains(rest, "10.0.0.1") {
							t.Errorf("behind the stream came %q", rest)
						}
					} else if got != want {
						t.Errorf("got %q, want %q", got, want)
					}
					if c.Outcome != test.outcome || c.Kept != nil {
						t.Errorf("the outcome is %v, want %v", c.Outcome, test.outcome)
					}
					w.calm()
				})
			})
		}
	}
}

// A stream that brings no token for stall_timeout is given up; comments are no
// tokens. One whose client does not read stands still for another reason.
func TestAStreamThatStandsStill(t *testing.T) {
	for _, test := range []struct {
		name   string
		pieces []said
		pause  time.Duration // of the reader, after the first token
		ends   time.Duration // 0 when the stream comes whole
	}{
		{"slowly", []said{{0, sseHead + events(role, hello)}, {9 * time.Second, events(hello)}, {9 * time.Second, events(stop)}}, 0, 0},
		{"not at all", []said{{0, sseHead + events(role, hello)}}, 0, 10 * time.Second},
		{"with comments", []said{{0, sseHead + events(role, hello)}, {6 * time.Second, ": ping\n\n"}}, 0, 10 * time.Second},
		{"a reader that sleeps", []said{{0, sseHead + events(role, hello)}, {time.Second, events(hello)}, {time.Second, events(stop)}}, time.Hour, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, provisioned(t, `{"stall_timeout":"10s"}`), "10.0.0.1:8000")
				e := &engine{pieces: test.pieces, hangup: test.ends == 0}
				w.against(e)
				c, began := w.answering(), time.Now()
				resp, err := w.tr.RoundTrip(w.request(t.Context(), c))
				if err != nil {
					t.Fatal(err)
				}
				first := make([]byte, 4096)
				if _, err := resp.Body.Read(first); err != nil {
					t.Fatal(err)
				}
				time.Sleep(test.pause)
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if test.ends == 0 {
					if err != nil || c.Outcome != llmlb.Served {
						t.Errorf("%v after %v, %v", err, time.Since(began), c.Outcome)
					}
					return
				}
				if !errors.Is(err, errStalled) || c.Outcome != llmlb.Truncated || time.Since(began) != test.ends {
					t.Errorf("%v after %v, %v; want it to be given up after %v", err, time.Since(began), c.Outcome, test.ends)
				}
				if closed := <-e.closed; closed.Sub(began) != test.ends {
					t.Error("the server was not told to stop")
				}
				w.calm()
			})
		})
	}
}

// An engine that sets a sequence aside for others has not stalled; it gets twice
// the time.
func TestASequenceSetAsideGetsMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{"stall_timeout":"10s"}`), "10.0.0.1:8000")
		e := &engine{pieces: []said{{0, sseHead + events(role, hello)}, {19 * time.Second, events(stop)}}, hangup: true}
		w.against(e)
		go func() {
			for range 19 {
				time.Sleep(time.Second)
				w.endpoint.Progressed(time.Now()) // another's token
			}
		}()
		c := w.answering()
		if _, _, err := w.do(c); err != nil || c.Outcome != llmlb.Served {
			t.Errorf("%v, %v", err, c.Outcome)
		}
	})
}

// The client must not see the usage chunk that was asked for in its place, and
// must see every other byte; the gateway learns from it all the same.
func TestUsageAskedForInTheClientsPlaceIsTakenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
		var pieces []said
		whole := sseHead + ": hi\r\n\r\n" + events(role, hello, hello, stop, counted, done)
		for i := 0; i < len(whole); i += 11 {
			pieces = append(pieces, said{0, whole[i:min(i+11, len(whole))]})
		}
		w.against(&engine{pieces: pieces, hangup: true})
		c := w.answering()
		c.StripUsage = true
		_, got, err := w.do(c)
		if want := ": hi\r\n\r\n" + events(role, hello, hello, stop, done); err != nil || got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
		if c.PromptTokens != 412 || c.OutputTokens != 18 || c.Outcome != llmlb.Served {
			t.Errorf("%d and %d tokens, %v", c.PromptTokens, c.OutputTokens, c.Outcome)
		}
	})
}

// Who has seen the end of a stream may leave without waiting for the connection
// to end too: the answer was served.
func TestAClientThatLeavesAtTheEndWasServed(t *testing.T) {
	for stream, want := range map[string]llmlb.Outcome{
		events(role, hello, stop, done): llmlb.Served,
		events(role, hello):             llmlb.ClientGone,
		events(role, hello, boom, done): llmlb.ClientGone,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
			w.against(&engine{pieces: []said{{0, sseHead + stream}}})
			c := w.answering()
			resp, err := w.tr.RoundTrip(w.request(t.Context(), c))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, len(stream))); err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if c.Outcome != want {
				t.Errorf("%q: %v, want %v", stream, c.Outcome, want)
			}
			w.calm()
		})
	}
}

// A stream has no length on its way to the client, whatever the server said: over
// HTTP/1.1 an answer with a length that is too long ends as if it were whole.
func TestAStreamHasNoLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
		w.against(&engine{pieces: []said{{0, response(events(role, hello))}}, hangup: true})
		resp, err := w.tr.RoundTrip(w.request(t.Context(), w.answering()))
		if err != nil {
			t.Fatal(err)
		}
		if resp.ContentLength != -1 || resp.Header.Get("Content-Length") != "" {
			t.Errorf("the length is %d and %q", resp.ContentLength, resp.Header.Get("Content-Length"))
		}
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, errCut) {
			t.Errorf("the stream ended with %v", err)
		}
		_ = resp.Body.Close()
	})
}

// JSON that comes to an end before it is closed is no whole answer.
func TestJSONThatDoesNotEndIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
		w.against(&engine{pieces: []said{{0, status("200 OK", "", `{"choices":[{"message":{"content":"one tw`)}}, hangup: true})
		c := w.answering()
		c.Stream = false
		if _, _, err := w.do(c); !errors.Is(err, errCut) || c.Outcome != llmlb.Truncated {
			t.Errorf("%v, %v", err, c.Outcome)
		}
		w.calm()
	})
}
