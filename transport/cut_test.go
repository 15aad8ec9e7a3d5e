package transport

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// An operator's limit is over: what has shown no token yet is tried elsewhere, and
// nobody notices.
func TestACutBeforeTheFirstTokenGoesElsewhere(t *testing.T) {
	for name, test := range map[string]struct {
		stream bool
		pieces []said
	}{
		"silence":                  {true, nil},
		"a head and a role":        {true, []said{{0, sseHead + events(role)}}},
		"an answer in one piece":   {false, nil},
		"a head without an answer": {false, []said{{0, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, provisioned(t, `{"first_token_min":"1m"}`), "10.0.0.1:8000")
				e := &engine{pieces: test.pieces}
				w.against(e)
				c, began := w.answering(), time.Now()
				c.Stream = test.stream
				time.AfterFunc(10*time.Second, func() { w.endpoint.Drain(time.Now(), llmlb.DrainOrder{Cut: true}) })
				_, _, err := w.do(c)
				if _, another := errors.AsType[reverseproxy.DialError](err); !another {
					t.Errorf("%v, want another attempt", err)
				}
				if took := time.Since(began); took < 10*time.Second || took > 10*time.Second+lookEvery {
					t.Errorf("given up after %v", took)
				}
				<-e.closed // it was told to stop
				if c.Outcome != llmlb.EngineError || w.endpoint.Ended(llmlb.EngineError) != 1 {
					t.Errorf("outcome %v", c.Outcome)
				}
				w.calm()
			})
		})
	}
}

// What the client has some of is not begun anew: it is aborted, and with an error
// event where those are wanted.
func TestACutAfterATokenIsSeenByTheClient(t *testing.T) {
	for config, event := range map[string]string{
		`{}`:                   "",
		`{"error_event":"on"}`: `"server_drained"`,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, provisioned(t, config), "10.0.0.1:8000")
			e := &engine{pieces: []said{{0, sseHead + events(role, hello)}, {time.Second, events(hello)}}}
			w.against(e)
			c, began := w.answering(), time.Now()
			time.AfterFunc(10*time.Second, func() { w.endpoint.Drain(time.Now(), llmlb.DrainOrder{Cut: true}) })
			resp, body, err := w.do(c)
			if resp == nil || err == nil || errors.Is(err, io.EOF) {
				t.Fatalf("%v: the stream was given a clean end", err)
			}
			if took := time.Since(began); took < 10*time.Second || took > 10*time.Second+lookEvery {
				t.Errorf("cut after %v", took)
			}
			if told := strings.TrimPrefix(body, events(role, hello, hello)); told == body || (told != "") != (event != "") || !strings.Contains(told, event) {
				t.Errorf("the client got %q", body)
			}
			<-e.closed
			if c.Outcome != llmlb.Truncated {
				t.Errorf("outcome %v", c.Outcome)
			}
			w.calm()
		})
	}
}

// A limit without a cut ends nothing, and neither does a drain.
func TestADrainCutsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
		w.against(&engine{pieces: []said{{0, sseHead + events(role, hello)}, {time.Minute, events(stop)}}, hangup: true})
		c := w.answering()
		time.AfterFunc(time.Second, func() { w.endpoint.Drain(time.Now(), llmlb.DrainOrder{Limit: time.Second}) })
		time.AfterFunc(10*time.Second, func() { w.pool.Notice(time.Now()) })
		if _, _, err := w.do(c); err != nil || c.Outcome != llmlb.Served {
			t.Errorf("%v, %v", err, c.Outcome)
		}
	})
}
