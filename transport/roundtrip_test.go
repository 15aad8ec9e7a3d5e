package transport

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func backend(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// The client learns which server answered and why, by name; with headers off it
// learns nothing.
func TestDecisionHeaders(t *testing.T) {
	address := backend(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{llmlb.HeaderEndpoint, llmlb.HeaderDecision, llmlb.HeaderMatched, llmlb.HeaderAttempts, llmlb.HeaderWait} {
			w.Header().Set(name, "what the engine thinks")
		}
		_, _ = io.WriteString(w, "x")
	})
	for _, test := range []struct {
		config string
		want   [4]string
	}{
		{`{}`, [4]string{"gpu-1", "warm", "7", "1"}},
		{`{"headers":"off"}`, [4]string{}},
	} {
		w := newWorld(t, provisioned(t, test.config), address)
		resp, _, err := w.do(w.call())
		if err != nil {
			t.Fatal(err)
		}
		h := resp.Header
		if got := [4]string{h.Get(llmlb.HeaderEndpoint), h.Get(llmlb.HeaderDecision), h.Get(llmlb.HeaderMatched), h.Get(llmlb.HeaderAttempts)}; got != test.want {
			t.Errorf("%s: got %q, want %q", test.config, got, test.want)
		}
		if wait := h.Get(llmlb.HeaderWait); wait != "" {
			t.Errorf("%s: waited %q, as the engine thinks", test.config, wait)
		}
		for name, values := range h {
			if strings.Contains(fmt.Sprint(values), address) {
				t.Errorf("%s tells the address", name)
			}
		}
	}
}

// A request that is none of ours passes as if the stock transport had it.
func TestRequestWithoutCallPassesUntouched(t *testing.T) {
	address := backend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Accept-Encoding"))
	})
	w := newWorld(t, provisioned(t, `{}`), address)
	req := w.request(t.Context(), llmlb.NewCall(w.pool, w.settings, time.Now()))
	resp, err := w.tr.RoundTrip(req.WithContext(llmlb.WithCall(req.Context(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); string(b) != "gzip" || resp.Header.Get(llmlb.HeaderEndpoint) != "" {
		t.Errorf("got %q with %v", b, resp.Header)
	}
	if _, ours := resp.Body.(*body); ours {
		t.Error("the body is read along")
	}
}

// The proxy loop may use the request again, with the headers it had.
func TestRequestIsNotChanged(t *testing.T) {
	address := backend(t, func(http.ResponseWriter, *http.Request) {})
	w := newWorld(t, provisioned(t, `{}`), address)
	c := w.call()
	req := w.request(t.Context(), c)
	resp, err := w.tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := req.Header.Get("Accept-Encoding"); got != "gzip" {
		t.Errorf("Accept-Encoding is now %q", got)
	}
}

// Every byte passes as it came, however it is framed, cut or encoded.
func TestBytesPassUnchanged(t *testing.T) {
	stream := ": ping\r\n\r\n" + events(role, hello) + "data: {\"bro\n\n" + events(stop, counted) + "data: [DONE]"
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, stream)
	_ = z.Close()
	for _, test := range []struct {
		name, kind, encoding, body string
		output                     int
	}{
		{"a stream", "text/event-stream; charset=utf-8", "", stream, 18},
		{"a stream encoded all the same", "text/event-stream", "gzip", packed.String(), llmlb.Unknown},
		{"a whole answer", "application/json", "", `{"choices":[{"message":{"content":"x"}}],"usage":{"completion_tokens":18}}`, 18},
		{"something else", "text/plain", "", stream, llmlb.Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			address := backend(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				if test.encoding != "" {
					w.Header().Set("Content-Encoding", test.encoding)
				}
				for i := 0; i < len(test.body); i += 7 {
					_, _ = io.WriteString(w, test.body[i:min(i+7, len(test.body))])
					_ = http.NewResponseController(w).Flush()
				}
			})
			w := newWorld(t, provisioned(t, `{}`), address)
			c := w.call()
			_, got, err := w.do(c)
			if err != nil || got != test.body {
				t.Errorf("got %q (%v), want %q", got, err, test.body)
			}
			if c.OutputTokens != test.output || c.Outcome != llmlb.Served {
				t.Errorf("%d output tokens and %v, want %d", c.OutputTokens, c.Outcome, test.output)
			}
			w.calm()
		})
	}
}

// No connection means that nobody has read the request: it may go elsewhere, and
// the table says why it did.
func TestEndpointThatCannotBeReached(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	untrusted.Config.ErrorLog = nil
	for _, test := range []struct{ name, config, address, reason string }{
		{"refused", `{}`, closed.Addr().String(), "connection refused"},
		{"not trusted", `{"tls":{}}`, untrusted.Listener.Addr().String(), "certificate not trusted"},
		{"no TLS there", `{"tls":{}}`, backend(t, nil), "TLS handshake failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, provisioned(t, test.config), test.address)
			for range 3 {
				c := w.call()
				req := w.request(t.Context(), c)
				req.URL.Scheme = ""
				_, err := w.tr.RoundTrip(req)
				if _, dial := errors.AsType[reverseproxy.DialError](err); !dial {
					t.Fatalf("%v would not be retried", err)
				}
				if !c.Excluded(w.endpoint) || c.Outcome != llmlb.Unreachable {
					t.Errorf("the outcome is %v, excluded %v", c.Outcome, c.Excluded(w.endpoint))
				}
			}
			w.pool.Lock()
			state, reason, _ := w.endpoint.State(time.Now())
			w.pool.Unlock()
			if state != llmlb.Down || reason != test.reason {
				t.Errorf("the endpoint is %v for %q, want down for %q", state, reason, test.reason)
			}
			w.calm()
		})
	}
}

// Only a client that has left is told so. An error that looks like it, on a
// request whose client waits, must not.
func TestOnlyAClientThatLeftGetsItsOwnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := provisioned(t, `{}`)
		w := newWorld(t, tr, "10.0.0.1:8000")
		onWire(tr, &wire{serve: func(conn net.Conn, _ int) {
			r := bufio.NewReader(conn)
			_, _ = read(r)
			_, _ = read(r) // until the gateway hangs up
		}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		c := w.call()
		if _, err := tr.RoundTrip(w.request(ctx, c)); !errors.Is(err, context.Canceled) || c.Outcome != llmlb.ClientGone {
			t.Errorf("after the client left: %v and %v", err, c.Outcome)
		}
		if c.Excluded(w.endpoint) {
			t.Error("the endpoint is blamed for a client that left")
		}
		w.calm()
	})
	left := &failure{outcome: llmlb.EngineError, err: fmt.Errorf("giving up: %w", context.Canceled)}
	for _, err := range []error{another(left.err), final(left)} {
		if errors.Is(err, context.Canceled) {
			t.Errorf("%v looks like a client that left", err)
		}
	}
	slow := &failure{outcome: llmlb.EngineError, err: context.DeadlineExceeded}
	if err, ok := final(slow).(net.Error); !ok || !err.Timeout() { //nolint:errorlint // as reverse_proxy asks
		t.Error("a timeout does not look like one, and would be answered 502")
	}
}

// phase tells how many own calls are before and after their first token.
func (w *world) phase() string {
	w.pool.Lock()
	defer w.pool.Unlock()
	prefill, decode := w.endpoint.Ledger().OwnCalls()
	return fmt.Sprintf("%d/%d", prefill, decode)
}

// The account follows the answer: the first token ends the prefill, the last byte
// ends it all. Where no first token can be seen, the predicted one has to do.
func TestLeaseFollowsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := provisioned(t, `{}`)
		w := newWorld(t, tr, "10.0.0.1:8000")
		onWire(tr, &wire{serve: func(conn net.Conn, _ int) {
			r := bufio.NewReader(conn)
			if _, err := read(r); err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
			for _, event := range []string{role, hello, stop} {
				time.Sleep(time.Second)
				_, _ = io.WriteString(conn, events(event))
			}
		}})
		c := w.call()
		resp, err := tr.RoundTrip(w.request(t.Context(), c))
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		for i, want := range []string{"0/1", "0/1"} { // the role comes with the first token
			if _, err := resp.Body.Read(buf); err != nil {
				t.Fatal(err)
			}
			if got := w.phase(); got != want {
				t.Errorf("after event %d the calls are %s, want %s", i+1, got, want)
			}
		}
		if got := c.FirstToken.Sub(c.Arrival); got != 2*time.Second {
			t.Errorf("the first token came after %v, want 2s", got)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		w.calm()

		whole := w.call()
		whole.Stream = false
		whole.Decision.Predicted = 1500 * time.Millisecond
		go func() {
			if resp, err := tr.RoundTrip(w.request(t.Context(), whole)); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		time.Sleep(1499 * time.Millisecond)
		synctest.Wait()
		if got := w.phase(); got != "1/0" {
			t.Errorf("before the predicted first token the calls are %s", got)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got := w.phase(); got != "0/1" {
			t.Errorf("after the predicted first token the calls are %s", got)
		}
		time.Sleep(5 * time.Second)
		w.calm()
	})
}

// A request that generates nothing is placed and ended, and counted nowhere.
func TestWhatGeneratesNothingIsNotCounted(t *testing.T) {
	address := backend(t, func(http.ResponseWriter, *http.Request) {})
	w := newWorld(t, provisioned(t, `{}`), address)
	c := w.call()
	c.API, c.InputTokens, c.Stream = "", 0, false
	if _, _, err := w.do(c); err != nil {
		t.Fatal(err)
	}
	w.calm()
	for _, o := range llmlb.Outcomes() {
		if w.endpoint.Ended(o) != 0 {
			t.Errorf("it is counted as %v", o)
		}
	}
}

// A prompt whose answer comes whole stands before others at its server until its
// first token should have come, and one of which nothing is generated until its
// end. Counted as computed from the start, forty of them would look like none.
func TestQuietPromptsCountUntilTheyAreDue(t *testing.T) {
	for _, test := range []struct {
		name      string
		predicted time.Duration
		set       func(*llmlb.Call)
		want      int
	}{
		{"an answer that comes whole", time.Hour, func(c *llmlb.Call) { c.Stream = false }, 10},
		{"whose first token is due", 0, func(c *llmlb.Call) { c.Stream = false }, 0},
		{"a stream that is not read", time.Hour, func(c *llmlb.Call) { c.API = "image" }, 10},
		{"nothing is generated", 0, func(c *llmlb.Call) { c.Stream, c.Encodes = false, true }, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			var w *world
			got := -1
			address := backend(t, func(rw http.ResponseWriter, _ *http.Request) {
				w.pool.Lock()
				w.endpoint.Load(time.Now(), w.settings) // which sees to what is due
				got, _ = w.endpoint.Ledger().TokensInFlight()
				w.pool.Unlock()
				_, _ = io.WriteString(rw, "{}")
			})
			w = newWorld(t, provisioned(t, `{}`), address)
			c := w.call()
			test.set(c)
			c.Decision.Predicted = test.predicted
			c.Begin(w.endpoint, time.Now())
			if _, _, err := w.do(c); err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("%d prompt tokens stood before others at the server, want %d", got, test.want)
			}
		})
	}
}
