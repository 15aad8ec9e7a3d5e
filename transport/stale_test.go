package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var wholeAnswer = response(events(role, hello, stop, "[DONE]"))

// wire is a network in memory, on which time is the test's. serve runs once per
// connection; number counts connections from 1.
type wire struct {
	serve  func(conn net.Conn, number int)
	dialed atomic.Int32
}

func (w *wire) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	n := int(w.dialed.Add(1))
	go func() {
		defer far.Close()
		w.serve(far, n)
	}()
	return near, nil
}

// onWire has the transport dial the wire.
func onWire(tr *Transport, w *wire) {
	tr.Transport.DialContext = w.dial
	tr.fresh.DialContext = w.dial
}

// read takes one whole request off the connection.
func read(r *bufio.Reader) (body string, err error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(req.Body)
	return string(b), err
}

// A kept-alive connection dies under a request. Whether the request may be sent
// again depends on nothing but when: an engine that had it for longer may have
// begun to generate.
func TestRequestOnDyingConnectionIsRepeatedOnlyAtOnce(t *testing.T) {
	for _, test := range []struct {
		name   string
		dies   time.Duration // after the second request was read
		begins string        // what is answered before
		reused bool
		again  bool
	}{
		{"at once", 0, "", true, true},
		{"after 49 ms", 49 * time.Millisecond, "", true, true},
		{"after 51 ms", 51 * time.Millisecond, "", true, false},
		{"after 300 ms", 300 * time.Millisecond, "", true, false},
		{"at once, with the answer begun", 0, "HTTP/1.1 200 OK\r\nContent-Le", true, false},
		{"at once, on a new connection", 0, "", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := provisioned(t, `{"failover":"unsent"}`)
				var generated atomic.Int32
				w := newWorld(t, tr, "10.0.0.1:8000")
				onWire(tr, &wire{serve: func(conn net.Conn, n int) {
					r := bufio.NewReader(conn)
					if n == 1 && test.reused || n > 1 {
						if body, err := read(r); err != nil || body != chatBody {
							t.Errorf("connection %d got %q, %v", n, body, err)
						}
						generated.Add(1)
						_, _ = io.WriteString(conn, wholeAnswer)
					}
					if n > 1 {
						return
					}
					if _, err := read(r); err != nil {
						return
					}
					_, _ = io.WriteString(conn, test.begins)
					time.Sleep(test.dies)
				}})
				if test.reused {
					if _, _, err := w.do(w.call()); err != nil {
						t.Fatalf("the first request failed: %v", err)
					}
				}

				c := w.call()
				resp, body, err := w.do(c)
				if test.again {
					if err != nil || resp.StatusCode != 200 || !strings.Contains(body, "Hello") {
						t.Fatalf("got %v and %q, want the answer of a fresh connection", err, body)
					}
					if got := generated.Load(); got != 2 {
						t.Errorf("the engine generated %d times for two requests", got)
					}
					if c.Outcome != llmlb.Served {
						t.Errorf("the outcome is %v", c.Outcome)
					}
				} else {
					if err == nil {
						t.Fatal("the request was answered, so it was sent twice")
					}
					if _, dial := errors.AsType[reverseproxy.DialError](err); dial {
						t.Errorf("%v would be retried by the proxy", err)
					}
					if c.Outcome != llmlb.EngineError {
						t.Errorf("the outcome is %v", c.Outcome)
					}
				}
				w.calm()
				tr.Transport.CloseIdleConnections()
			})
		})
	}
}

// Behind a slow line the reset takes longer to come back: two round trips count
// as at once.
func TestFarUpstreamHasLongerToReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		d := new(delays)
		w := &watch{address: "far", delays: d, now: time.Now}
		w.dial(start)
		time.Sleep(100 * time.Millisecond)
		w.dialed(time.Now(), nil)
		w.got.Store(true)
		w.reused.Store(true)
		w.wrote.Store(time.Now().UnixNano())
		time.Sleep(199 * time.Millisecond)
		if !w.stale() {
			t.Error("a reset after 199 ms on a line of 100 ms is not taken for a stale connection")
		}
		time.Sleep(2 * time.Millisecond)
		if w.stale() {
			t.Error("a reset after 201 ms on a line of 100 ms is taken for a stale connection")
		}
	})
}

// One dial that took a second, because a packet was lost, says nothing of the
// line. It once widened the window to two seconds, and a generation of one and a
// half was sent twice.
func TestOneSlowDialDoesNotWidenTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(delays)
		d.set("a", time.Second)
		w := &watch{address: "a", delays: d, now: time.Now}
		w.got.Store(true)
		w.reused.Store(true)
		w.wrote.Store(time.Now().UnixNano())
		time.Sleep(staleMost + time.Millisecond)
		if w.stale() {
			t.Error("taken for a stale connection long after the request was written")
		}
		d.set("a", time.Millisecond)
		d.set("a", time.Second)
		if got := d.of("a"); got != time.Millisecond {
			t.Errorf("round trip %v, want the shortest seen", got)
		}
	})
}

// An engine that ends each connection after the reply without a word, as
// llama.cpp does after streams, must cost nobody an answer and no answer twice;
// and soon it gets no connection twice.
func TestServerThatClosesAfterEachReply(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var handled atomic.Int32
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				body, err := read(bufio.NewReader(conn))
				if err == nil && body == chatBody {
					handled.Add(1)
					_, _ = io.WriteString(conn, wholeAnswer)
				}
			}()
		}
	}()

	w := newWorld(t, provisioned(t, `{}`), ln.Addr().String())
	const each, together = 6, 50
	var wg sync.WaitGroup
	for range together {
		wg.Go(func() {
			for i := range each {
				if resp, body, err := w.do(w.call()); err != nil || resp.StatusCode != 200 || !strings.Contains(body, "Hello") {
					t.Errorf("request %d: %v, %q", i, err, body)
				}
			}
		})
	}
	wg.Wait()
	if got := handled.Load(); got != each*together {
		t.Errorf("the engine handled %d requests of %d", got, each*together)
	}
	w.calm()
}

// The gaps between requests are about as long as the engine keeps a connection:
// with every request the two may cross.
func TestGapsAboutAsLongAsConnectionsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kept = 100 * time.Millisecond
		tr := provisioned(t, `{}`)
		w := newWorld(t, tr, "10.0.0.1:8000")
		var handled atomic.Int32
		onWire(tr, &wire{serve: func(conn net.Conn, _ int) {
			r := bufio.NewReader(conn)
			for {
				_ = conn.SetReadDeadline(time.Now().Add(kept))
				if _, err := read(r); err != nil {
					return
				}
				handled.Add(1)
				_, _ = io.WriteString(conn, wholeAnswer)
			}
		}})
		for i := range 300 {
			if resp, _, err := w.do(w.call()); err != nil || resp.StatusCode != 200 {
				t.Fatalf("request %d: %v", i, err)
			}
			time.Sleep(kept + time.Duration(i%21-10)*time.Millisecond)
		}
		if got := handled.Load(); got != 300 {
			t.Errorf("the engine handled %d requests of 300", got)
		}
		w.calm()
		tr.Transport.CloseIdleConnections()
	})
}

// Two dead connections show what kind of server it is: no reuse from then on.
func TestEndpointThatClosesGetsFreshConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := provisioned(t, `{}`)
		w := newWorld(t, tr, "10.0.0.1:8000")
		var closing []bool
		line := &wire{}
		line.serve = func(conn net.Conn, _ int) {
			r := bufio.NewReader(conn)
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			closing = append(closing, req.Close)
			_, _ = io.WriteString(conn, wholeAnswer)
			_, _ = read(r) // and dies of the next one
		}
		onWire(tr, line)
		for range 6 {
			if _, _, err := w.do(w.call()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if !w.endpoint.ClosesAfterReply() {
			t.Error("the endpoint is not known to close after each reply")
		}
		// 1 is kept, 2 dies on it and goes fresh; 3 and 4 likewise; then all are.
		if got, want := strings.Trim(fmt.Sprint(closing), "[]"), "false true false"+strings.Repeat(" true", 3); got != want {
			t.Errorf("connections announced as the last: %s, want %s", got, want)
		}
		w.calm()
		tr.Transport.CloseIdleConnections()
	})
}

// net/http sends a request again by itself when it looks idempotent to it. A
// client can make any request look so.
func TestClientCannotHaveItsRequestRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := provisioned(t, `{}`)
		w := newWorld(t, tr, "10.0.0.1:8000")
		var handled atomic.Int32
		onWire(tr, &wire{serve: func(conn net.Conn, n int) {
			r := bufio.NewReader(conn)
			for i := 0; ; i++ {
				if _, err := read(r); err != nil {
					return
				}
				handled.Add(1)
				if i > 0 {
					time.Sleep(time.Second) // and dies
					return
				}
				_, _ = io.WriteString(conn, wholeAnswer)
			}
		}})
		for _, body := range []string{chatBody, ""} {
			handled.Store(0)
			send := func() error {
				c := w.call()
				c.Body = []byte(body)
				req := w.request(t.Context(), c)
				req.Header["Idempotency-Key"] = []string{}
				req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
				if body == "" {
					req.Body, req.ContentLength = nil, 0
				}
				resp, err := tr.RoundTrip(req)
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				return err
			}
			if err := send(); err != nil {
				t.Fatal(err)
			}
			if err := send(); err == nil {
				t.Error("the request on the dead connection was answered")
			}
			if got := handled.Load(); got != 2 {
				t.Errorf("with the body %q the engine got %d requests of 2", body, got)
			}
		}
		tr.Transport.CloseIdleConnections()
	})
}

// Whoever traces the connection of a request goes on doing so, and informational
// answers reach the proxy, which passes them on.
func TestTracesThatAreThereStay(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
	}))
	defer srv.Close()
	for _, full := range []bool{false, true} {
		var informed, connected int
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			informed = code
			return nil
		}}
		if full {
			trace.GotConn = func(httptrace.GotConnInfo) { connected++ }
		}
		w := &watch{delays: new(delays), now: time.Now}
		req, err := http.NewRequestWithContext(w.context(httptrace.WithClientTrace(t.Context(), trace)), http.MethodGet, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if informed != http.StatusEarlyHints || full != (connected == 1) || !w.got.Load() || !w.answered.Load() {
			t.Errorf("informed of %d, told of %d connections, the watch of one: %v", informed, connected, w.got.Load())
		}
	}
}

// A hook that a newer Go adds must be asked for in onlyInforms.
func TestAllHooksOfATraceAreKnown(t *testing.T) {
	for f := range reflect.TypeFor[httptrace.ClientTrace]().Fields() {
		trace := new(httptrace.ClientTrace)
		v := reflect.ValueOf(trace).Elem().FieldByIndex(f.Index)
		v.Set(reflect.MakeFunc(f.Type, func([]reflect.Value) []reflect.Value { return nil }))
		if got, want := onlyInforms(trace), f.Name == "Got1xxResponse"; got != want {
			t.Errorf("with %s alone it is %v", f.Name, got)
		}
	}
}
