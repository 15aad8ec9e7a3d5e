package transport

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

// engine is a server that says its pieces to each request and then, unless it
// hangs up, waits for the gateway to do so.
type engine struct {
	pieces []said
	hangup bool

	closed chan time.Time // when the gateway hung up
}

func (e *engine) serve(conn net.Conn, _ int) {
	r := bufio.NewReader(conn)
	if _, err := read(r); err != nil {
		return
	}
	for _, p := range e.pieces {
		time.Sleep(p.after)
		if _, err := io.WriteString(conn, p.event); err != nil {
			break
		}
	}
	if !e.hangup {
		_, _ = r.ReadByte()
		e.closed <- time.Now()
	}
}

// against has the world's endpoint be the engine.
func (w *world) against(e *engine) {
	e.closed = make(chan time.Time, 4)
	onWire(w.tr, &wire{serve: e.serve})
}

// answering makes the Call one that has the admission handler in front.
func (w *world) answering() *llmlb.Call {
	w.settings.Retries = 2
	c := w.call()
	c.Answering = true
	return c
}

const (
	boom     = `{"error":{"message":"boom","type":"internal_error","param":null,"code":500}}`
	full     = `{"error":{"message":"The request queue is full.","type":"SERVICE_UNAVAILABLE","param":null,"code":503}}`
	tooMuch  = `{"error":{"message":"busy","code":429}}`
	wordHead = "HTTP/1.1 %s\r\nContent-Type: application/json\r\nConnection: close\r\n"
)

func status(line, header, body string) string {
	return strings.Replace(wordHead, "%s", line, 1) + header + "\r\n" + body
}

// Until a first token has come, whatever goes wrong at one server may be made
// good by another, as far as the mode allows; and the server is told to stop
// before the other is asked.
func TestWhatMayBeTriedElsewhere(t *testing.T) {
	type verdict struct{ noToken, unsent bool }
	all, refusedOnly := verdict{true, true}, verdict{true, false}
	for _, test := range []struct {
		name    string
		pieces  []said
		hangup  bool
		stream  bool
		outcome llmlb.Outcome
		again   verdict
		after   time.Duration
		kept    int // status of what is kept for the client
	}{
		{"nothing is said", nil, false, true, llmlb.FirstTokenTimeout, refusedOnly, 5 * time.Second, 0},
		{"headers and silence", []said{{0, sseHead}}, false, true, llmlb.FirstTokenTimeout, refusedOnly, 5 * time.Second, 0},
		{"a role and silence", []said{{0, sseHead + events(role)}}, false, true, llmlb.FirstTokenTimeout, refusedOnly, 5 * time.Second, 0},
		{"comments and no more", []said{{0, sseHead}, {time.Second, ": ping\n\n"}, {time.Second, ": ping\n\n"}}, false, true, llmlb.FirstTokenTimeout, refusedOnly, 5 * time.Second, 0},
		{"reset before headers", []said{{time.Second, ""}}, true, true, llmlb.EngineError, refusedOnly, time.Second, 0},
		{"an empty stream", []said{{time.Second, sseHead}}, true, true, llmlb.EngineError, refusedOnly, time.Second, 0},
		{"a role and an end", []said{{time.Second, sseHead + events(role)}}, true, true, llmlb.EngineError, refusedOnly, time.Second, 0},
		{"an error in the place of the answer", []said{{time.Second, sseHead + events(boom, done)}}, false, true, llmlb.EngineError, refusedOnly, time.Second, 500},
		{"too much to do, in a 200", []said{{time.Second, sseHead + events(full, done)}}, false, true, llmlb.Overloaded, all, time.Second, 503},
		{"500", []said{{time.Second, status("500 Oh", "", boom)}}, true, true, llmlb.EngineError, refusedOnly, time.Second, 500},
		{"503", []said{{time.Second, status("503 Full", "Retry-After: 7\r\n", full)}}, true, true, llmlb.Overloaded, all, time.Second, 503},
		{"429", []said{{time.Second, status("429 Full", "", tooMuch)}}, true, false, llmlb.Overloaded, all, time.Second, 429},
		{"529", []said{{time.Second, status("529 Full", "", tooMuch)}}, true, false, llmlb.Overloaded, all, time.Second, 529},
		{"a whole answer of nothing", []said{{time.Second, status("200 OK", "Content-Length: 500\r\n", "")}}, true, false, llmlb.EngineError, refusedOnly, time.Second, 0},
		{"a whole answer that breaks off", []said{{time.Second, status("200 OK", "Content-Length: 500\r\n", `{"id":"`)}}, true, false, llmlb.EngineError, refusedOnly, time.Second, 0},
	} {
		for mode, again := range map[string]bool{noToken: test.again.noToken, unsent: test.again.unsent, off: false} {
			t.Run(test.name+"/"+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, provisioned(t, `{"failover":"`+mode+`"}`), "10.0.0.1:8000")
					e := &engine{pieces: test.pieces, hangup: test.hangup}
					w.against(e)
					c := w.answering()
					c.Stream = test.stream
					began := time.Now()
					resp, body, err := w.do(c)
					if took := time.Since(began); took != test.after {
						t.Errorf("it took %v, want %v", took, test.after)
					}
					_, another := errors.AsType[reverseproxy.DialError](err)
					if another != again {
						t.Errorf("another attempt: %v, want %v (%v)", another, again, err)
					}
					if c.Outcome != test.outcome || !c.Excluded(w.endpoint) {
						t.Errorf("the outcome is %v, excluded %v; want %v", c.Outcome, c.Excluded(w.endpoint), test.outcome)
					}
					switch {
					case test.kept == 0 && err == nil:
						t.Errorf("the client got %d and %q", resp.StatusCode, body)
					case test.kept > 0 && again && (c.Kept == nil || c.Kept.Status != test.kept || !strings.Contains(string(c.Kept.Body), `"error"`)):
						t.Errorf("kept is %+v, want the server's %d", c.Kept, test.kept)
					case test.kept > 0 && !again && (err != nil || resp.StatusCode != test.kept || !strings.HasPrefix(body, `{"error"`)):
						t.Errorf("got %v and %q, want the server's %d", err, body, test.kept)
					}
					if !test.hangup {
						if left := (<-e.closed).Sub(began); left > test.after {
							t.Errorf("the server was told to stop after %v, when another may have begun", left)
						}
					}
					w.calm()
				})
			})
		}
	}
}

// With the admission handler there is somebody who gives the client what a server
// said when no other has a better answer. Without, such an answer must not be
// dropped.
func TestAnswersAreDroppedOnlyForSomebodyWhoKeepsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
		for _, first := range []string{status("503 Full", "", full), sseHead + events(full, done)} {
			w.against(&engine{pieces: []said{{0, first}}, hangup: true})
			c := w.call()
			resp, body, err := w.do(c)
			if err != nil || resp.StatusCode != http.StatusServiceUnavailable || body != full {
				t.Errorf("got %v and %q, want the server's own 503", err, body)
			}
			if resp != nil && resp.Header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After is %q", resp.Header.Get("Retry-After"))
			}
			w.calm()
		}
	})
}

// A request is tried as often as the settings say and no oftener.
func TestNoMoreAttemptsThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
		w.against(&engine{hangup: true})
		for attempts, again := range map[int]bool{1: true, 2: true, 3: false} {
			c := w.answering()
			c.Attempts = attempts
			_, _, err := w.do(c)
			if _, another := errors.AsType[reverseproxy.DialError](err); another != again {
				t.Errorf("after %d attempts of three another follows: %v", attempts, another)
			}
		}
	})
}

// When every server fails, retries do not multiply what is asked of them.
func TestRetriesHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
		w.against(&engine{hangup: true})
		again := 0
		for range 200 {
			_, _, err := w.do(w.answering())
			if _, another := errors.AsType[reverseproxy.DialError](err); another {
				again++
			}
		}
		if again < 10 || again > 100 {
			t.Errorf("%d of 200 failed requests may be tried again", again)
		}
	})
}

// A long prefill is no stall: how long a first token may take goes by what was
// predicted, between the two bounds.
func TestFirstTokenDeadlineFollowsThePrediction(t *testing.T) {
	for _, test := range []struct {
		config          string
		predicted, want time.Duration
	}{
		{`{}`, 0, 5 * time.Second},
		{`{}`, time.Second, 5 * time.Second},
		{`{}`, 10 * time.Second, 40 * time.Second},
		{`{}`, time.Hour, 2 * time.Minute},
		{`{"first_token_min":"1s","first_token_max":"3s"}`, 0, time.Second},
		{`{"first_token_min":"1s","first_token_max":"3s"}`, time.Second, 3 * time.Second},
		{`{"first_token_max":"3s"}`, 0, 3 * time.Second},
		{`{"first_token_min":"3m"}`, 0, 3 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, provisioned(t, test.config), "10.0.0.1:8000")
			e := &engine{}
			w.against(e)
			c := w.call()
			c.Decision.Predicted = test.predicted
			began := time.Now()
			if _, _, err := w.do(c); err == nil || c.Outcome != llmlb.FirstTokenTimeout || time.Since(began) != test.want {
				t.Errorf("%s, predicted %v: %v after %v, want %v", test.config, test.predicted, err, time.Since(began), test.want)
			}
			<-e.closed
		})
	}
}

// A server that goes on answering others has this request in its queue. It is
// waited for, but not for ever.
func TestABusyServerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
		e := &engine{}
		w.against(e)
		quit := make(chan struct{})
		go func() { // another answer there
			for {
				select {
				case <-quit:
					return
				case <-time.After(time.Second):
					w.endpoint.Progressed(time.Now())
				}
			}
		}()
		defer close(quit)
		began := time.Now()
		if _, _, err := w.do(w.call()); err == nil || time.Since(began) != 2*time.Minute {
			t.Errorf("%v after %v, want first_token's longest", err, time.Since(began))
		}
		<-e.closed

		e.pieces = []said{{20 * time.Second, sseHead + events(role, hello, stop)}}
		e.hangup = true
		w.against(e)
		c := w.call()
		if _, _, err := w.do(c); err != nil || c.Outcome != llmlb.Served {
			t.Errorf("a request that stood in the queue for 20 s: %v, %v", err, c.Outcome)
		}
	})
}

// What cannot show a first token is waited for until its server is gone.
func TestAnAnswerThatComesWholeIsWaitedForWhileItsServerLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
		e := &engine{pieces: []said{{time.Hour, status("200 OK", "", `{"choices":[{"message":{"content":"x"}}]}`)}}, hangup: true}
		w.against(e)
		c := w.call()
		c.Stream = false
		if _, _, err := w.do(c); err != nil || c.Outcome != llmlb.Served {
			t.Errorf("after an hour: %v, %v", err, c.Outcome)
		}

		*e = engine{}
		w.against(e)
		began := time.Now()
		time.AfterFunc(time.Minute, func() {
			for range 3 {
				w.endpoint.NotReached(time.Now(), "connection refused")
			}
		})
		c = w.answering()
		c.Stream = false
		_, _, err := w.do(c)
		if c.Outcome != llmlb.FirstTokenTimeout {
			t.Errorf("a server that fell silent is blamed for %v", c.Outcome)
		}
		if _, another := errors.AsType[reverseproxy.DialError](err); !another || time.Since(began) > time.Minute+lookEvery {
			t.Errorf("%v after %v, want another attempt once the server is down", err, time.Since(began))
		}
		<-e.closed
		w.calm()
	})
}

// With first_token off the head of an answer is passed on at once, and what
// comes after it is the client's, whatever it is.
func TestHeadsPassAtOnceWithoutAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{"first_token":"off"}`), "10.0.0.1:8000")
		w.against(&engine{pieces: []said{{0, sseHead}, {time.Hour, events(boom)}}, hangup: true})
		defer time.Sleep(time.Hour) // until the engine notices
		began := time.Now()
		c := w.answering()
		resp, err := w.tr.RoundTrip(w.request(t.Context(), c))
		if err != nil || time.Since(began) != 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		// Neither an hour without a token nor the error had another tried.
		if err == nil || len(body) > 0 || c.Outcome != llmlb.Truncated {
			t.Errorf("%q, %v, %v; want the stream to end as a stalled one", body, err, c.Outcome)
		}
		w.calm()
	})
}

// More than can be held before a first token is let through.
func TestGateHoldsNoMoreThanItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
		comments := strings.Repeat(": "+strings.Repeat("x", 1000)+"\n\n", 100)
		e := &engine{pieces: []said{{0, sseHead + comments}, {time.Minute, events(hello, stop)}}, hangup: true}
		w.against(e)
		began := time.Now()
		resp, err := w.tr.RoundTrip(w.request(t.Context(), w.call()))
		if err != nil || time.Since(began) != 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(body) != comments+events(hello, stop) {
			t.Errorf("%d bytes, %v", len(body), err)
		}
	})
}
