package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A server that answers an upload early and hangs up is heard, every time.
func TestEarlyAnswerOutlivesTheUpload(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, "HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
			c.Close() // with the upload unread: the connection is reset
		}
	}()
	rt := &http.Transport{DialContext: candidly(new(net.Dialer).DialContext)}
	defer rt.CloseIdleConnections()
	for i := range 100 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ln.Addr().String(), strings.NewReader(strings.Repeat("x", 3<<20)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatalf("upload %d: %v", i, err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge || string(body) != "{}" {
			t.Fatalf("upload %d: status %d: %q, %v", i, res.StatusCode, body, err)
		}
	}
}

// brittle is a connection that takes nothing and shows nothing.
type brittle struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

var errTakesNothing = errors.New("takes nothing")

func (b *brittle) Read([]byte) (int, error)  { <-b.closed; return 0, io.EOF }
func (b *brittle) Write([]byte) (int, error) { return 0, errTakesNothing }
func (b *brittle) Close() error              { b.once.Do(func() { close(b.closed) }); return nil }

// A write fails as soon as nothing more can be read, and after a second at most.
func TestFailedWritesWaitForTheAnswerAndNoLonger(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(net.Conn)
		want   time.Duration
	}{
		"nothing is heard": {func(net.Conn) {}, answerWithin},
		"closed meanwhile": {func(c net.Conn) { time.AfterFunc(100*time.Millisecond, func() { c.Close() }) }, 100 * time.Millisecond},
		"read to its end":  {func(c net.Conn) { c.Close(); _, _ = c.Read(nil) }, 0},
		"read to its end late": {func(c net.Conn) {
			go func() { _, _ = c.Read(nil) }()
			time.AfterFunc(time.Millisecond, func() { c.Close() })
		}, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := candidly(func(context.Context, string, string) (net.Conn, error) {
					return &brittle{closed: make(chan struct{})}, nil
				})(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				tc.before(c)
				begun := time.Now()
				if _, err := fmt.Fprint(c, "x"); !errors.Is(err, errTakesNothing) {
					t.Errorf("error %v", err)
				}
				if took := time.Since(begun); took != tc.want {
					t.Errorf("took %v, want %v", took, tc.want)
				}
			})
		})
	}
}

// sink is a connection that takes everything.
type sink struct {
	net.Conn
	took int64
}

func (s *sink) Write(p []byte) (int, error) { s.took += int64(len(p)); return len(p), nil }

// A long body goes out whole, as net/http hands it over, and no memory is made for
// that: io.Copy alone makes 32 KiB each time.
func TestLongBodiesAreWrittenFromWhereTheyLie(t *testing.T) {
	const long, times = 400 << 10, 200
	s := new(sink)
	c := &candid{Conn: s, over: make(chan struct{})}
	call := new(llmlb.Call)
	call.SetBody(make([]byte, long))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		if n, err := io.Copy(c, io.LimitReader(call.BodyReader(), long)); n != long || err != nil {
			t.Fatalf("%d of %d bytes went out: %v", n, long, err)
		}
	}
	runtime.ReadMemStats(&after)
	if s.took != times*long {
		t.Errorf("%d bytes arrived, want %d", s.took, times*long)
	}
	if each := (after.TotalAlloc - before.TotalAlloc) / times; each > 4<<10 {
		t.Errorf("%d bytes of memory for each body", each)
	}
}

// What is not held in memory goes out as well.
func TestOtherBodiesAreCopied(t *testing.T) {
	s := new(sink)
	c := &candid{Conn: s, over: make(chan struct{})}
	for _, r := range []io.Reader{strings.NewReader("body"), io.LimitReader(strings.NewReader("body and more"), 4)} {
		if n, err := c.ReadFrom(r); n != 4 || err != nil {
			t.Errorf("%d bytes, %v; want 4", n, err)
		}
	}
	if s.took != 8 {
		t.Errorf("%d bytes arrived, want 8", s.took)
	}
}
