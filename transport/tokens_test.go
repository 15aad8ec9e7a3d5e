package transport

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// said is a piece of a stream and how long the engine takes for it.
type said struct {
	after time.Duration
	event string
}

// speaking serves every connection one answer, whose head comes at once.
func speaking(pieces ...said) *wire {
	return &wire{serve: func(conn net.Conn, _ int) {
		if _, err := read(bufio.NewReader(conn)); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
		for _, p := range pieces {
			time.Sleep(p.after)
			if _, err := io.WriteString(conn, p.event); err != nil {
				return
			}
		}
	}}
}

func (w *world) itl() *float64 {
	w.t.Helper()
	return w.pool.Status(time.Now()).Endpoints[0].ITLMillis
}

// The pool table shows how long a stream waits between two tokens, measured from
// the first to the last of them and counted as the engine counts, where it does.
func TestTimeBetweenTokensIsShown(t *testing.T) {
	const breaksOff = "a stream that breaks off"
	const gap = 40 * time.Millisecond
	first := []said{
		{time.Second, events(role)},
		{time.Second, events(hello)},
	}
	token := said{gap, events(hello)}
	usage := `{"choices":[],"usage":{"completion_tokens":21}}`
	for _, test := range []struct {
		name   string
		rest   []said
		events int
		ms     float64 // 0 means unknown
	}{
		{
			"a token an event",
			[]said{token, token, token, token, token, {time.Second, events(stop, "[DONE]")}},
			6, 40,
		},
		{
			"what is no token takes no time",
			[]said{
				token, token,
				{gap / 2, ": ping\n\n"},
				{gap / 2, events(hello)},
				token, token,
				{time.Second, events(stop, counted[:len(counted)-1]+`,"usage":null}`)},
				{time.Second, "data: [DONE]\n\n"},
			},
			6, 200. / 17, // the 18 tokens of counted
		},
		{
			"four tokens an event",
			[]said{
				{4 * gap, events(hello)},
				{4 * gap, events(hello)},
				{4 * gap, events(hello)},
				{4 * gap, events(hello)},
				{4 * gap, events(hello)},
				{0, events(stop, usage)},
			},
			6, 40,
		},
		{"several events at once", []said{{5 * gap, events(hello, hello, hello, hello, hello, stop)}}, 6, 40},
		{"an event in two pieces", []said{
			token, token, token, token,
			{gap / 2, "data: " + hello[:40]},
			{gap / 2, hello[40:] + "\n\n"},
			{0, events(stop)},
		}, 6, 40},
		{"too few to say", []said{token, {0, events(stop)}}, 2, 0},
		{breaksOff, []said{token, token, token, token, token}, 6, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := provisioned(t, `{}`)
				w := newWorld(t, tr, "10.0.0.1:8000")
				onWire(tr, speaking(append(first[:2:2], test.rest...)...))
				c := w.call()
				if _, _, err := w.do(c); (err != nil) != (test.name == breaksOff) {
					t.Fatal(err)
				}
				if c.TokenEvents != test.events {
					t.Errorf("%d events with a token, want %d", c.TokenEvents, test.events)
				}
				switch got := w.itl(); {
				case test.ms == 0 && got != nil:
					t.Errorf("the table shows %v ms, want nothing", *got)
				case test.ms > 0 && (got == nil || *got < test.ms-0.01 || *got > test.ms+0.01):
					t.Errorf("the table shows %v, want %v ms", got, test.ms)
				}
				w.calm()
			})
		})
	}
}

// What was seen of an answer is known also when the client leaves in the middle.
func TestTokensOfAnAnswerThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := provisioned(t, `{}`)
		w := newWorld(t, tr, "10.0.0.1:8000")
		onWire(tr, speaking(said{0, events(role)}, said{time.Second, events(hello)}, said{time.Second, events(hello)}, said{time.Hour, events(stop)}))
		defer time.Sleep(time.Hour) // until the engine notices
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := w.call()
		resp, err := tr.RoundTrip(w.request(ctx, c))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if c.Outcome != llmlb.ClientGone || c.TokenEvents != 2 || c.LastToken.Sub(c.Arrival) != 2*time.Second {
			t.Errorf("%v with %d tokens, the last after %v", c.Outcome, c.TokenEvents, c.LastToken.Sub(c.Arrival))
		}
		w.calm()
	})
}

// An answer is measured by itself: what the attempt before had shown is none of
// its tokens.
func TestAnotherAttemptBeginsWithoutTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := provisioned(t, `{}`)
		w := newWorld(t, tr, "10.0.0.1:8000")
		onWire(tr, speaking(said{time.Second, events(hello, counted)}, said{time.Second, events(hello, stop)}))
		c := w.call()
		if _, _, err := w.do(c); err != nil || c.TokenEvents != 2 || c.OutputTokens != 18 {
			t.Fatalf("%v, %d tokens, %d told", err, c.TokenEvents, c.OutputTokens)
		}
		again := time.Now()
		w.pool.Lock()
		c.Lease = w.pool.Reserve(w.endpoint, again, llmlb.Work{Uncached: 10, Output: 10})
		w.pool.Unlock()
		onWire(tr, speaking(said{3 * time.Second, events(hello)}, said{time.Second, events(stop)}))
		if _, _, err := w.do(c); err != nil {
			t.Fatal(err)
		}
		if c.TokenEvents != 1 || c.FirstToken.Sub(again) != 3*time.Second || !c.LastToken.Equal(c.FirstToken) {
			t.Errorf("%d tokens, the first after %v, the last %v later", c.TokenEvents, c.FirstToken.Sub(again), c.LastToken.Sub(c.FirstToken))
		}
		if c.OutputTokens != 1 { // counted, since this answer told nothing
			t.Errorf("%d output tokens, want 1", c.OutputTokens)
		}
		w.calm()
	})
}

// An answer that comes whole has no time between tokens.
func TestWholeAnswersShowNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := provisioned(t, `{}`)
		w := newWorld(t, tr, "10.0.0.1:8000")
		onWire(tr, &wire{serve: func(conn net.Conn, _ int) {
			if _, err := read(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"+`{"choices":[{"text":"a whole answer"}]}`)
			}
		}})
		c := w.call()
		if _, _, err := w.do(c); err != nil {
			t.Fatal(err)
		}
		if c.TokenEvents != 0 || !c.LastToken.IsZero() || c.OutputTokens != llmlb.Unknown {
			t.Errorf("%d tokens, %d told, the last at %v", c.TokenEvents, c.OutputTokens, c.LastToken)
		}
	})
}
