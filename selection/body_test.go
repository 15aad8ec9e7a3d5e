package selection

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Bodies of every size arrive as they were sent.
func TestLongBodiesArriveUnchanged(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	url := run(t, addressesOf(a, b), "engine none", "")
	for _, n := range []int{31_000, 129_000, 1_014_506, 2 << 20} {
		body := chat("long", n)
		status, by := post(t, url, strings.NewReader(body))
		s := map[string]*server{"a": a, "b": b}[by]
		if status != http.StatusOK || s == nil {
			t.Fatalf("%d bytes: status %d by %q", n, status, by)
		}
		if _, got, length := s.seen(); sha256.Sum256(got) != sha256.Sum256([]byte(body)) || length != int64(len(body)) {
			t.Errorf("%d bytes: the server got %d, announced as %d", len(body), len(got), length)
		}
	}
}

// A client that sends its body piece by piece, without saying how long it will
// be, gets one well-framed request.
func TestAChunkedBodyArrivesWhole(t *testing.T) {
	a := newServer(t, "a")
	url := run(t, addressesOf(a), "engine none", "")
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := chat("hi", 0)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", conn.RemoteAddr())
	for i := 0; i < len(body); i += 20 {
		piece := body[i:min(i+20, len(body))]
		fmt.Fprintf(conn, "%x\r\n%s\r\n", len(piece), piece)
	}
	io.WriteString(conn, "0\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	hits, got, length := a.seen()
	if r.StatusCode != http.StatusOK || hits != 1 || string(got) != body || length != int64(len(body)) {
		t.Errorf("status %d, %d hits, body %q announced as %d", r.StatusCode, hits, got, length)
	}
}

// Requests without a body, and those that are not for a model, pass.
func TestRequestsWithoutABodyPass(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	url := run(t, addressesOf(a, b), "engine none", "")
	for _, tc := range []struct{ method, path, body string }{
		{"GET", "/v1/models", ""},
		{"POST", "/v1/chat/completions", ""},
		{"HEAD", "/", ""},
		{"OPTIONS", "/v1/chat/completions", ""},
		{"POST", "/v1/embeddings", `{"model":"m","input":["a","b"]}`},
		{"POST", "/v1/chat/completions", `{"model":"m"`},
		{"POST", "/v1/chat/completions", `{"model":"cheap","model":"secret","messages":[]}`},
		{"POST", "/v1/chat/completions", `{"model":"m","priority":1,"messages":[]}`},
		{"POST", "/v1/chat/completions", "\xef\xbb\xbf" + `{"model":"m","messages":[{"role":"user","content":"` + "\xff\xfe\xc3\x28" + `\ud800"}]}`},
	} {
		before := a.count() + b.count()
		req, err := http.NewRequest(tc.method, url+tc.path, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		r, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK || a.count()+b.count() != before+1 {
			t.Fatalf("%s %s %q: status %d, %d hits", tc.method, tc.path, tc.body, r.StatusCode, a.count()+b.count()-before)
		}
		s := map[string]*server{"a": a, "b": b}[r.Header.Get("X-Server")]
		if _, got, _ := s.seen(); string(got) != tc.body {
			t.Errorf("%s %s: the server got %q, want %q", tc.method, tc.path, got, tc.body)
		}
	}
	eventually(t, "all leases ended", func() bool { return openCalls(t) == 0 })
}

// A websocket passes. What runs over it is not known, so it books no work.
func TestAnUpgradePasses(t *testing.T) {
	a := newServer(t, "a")
	a.answer = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		rw.WriteString(line)
		rw.Flush()
	})
	url := run(t, addressesOf(a), "engine none", "")
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1/realtime HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", conn.RemoteAddr())
	in := bufio.NewReader(conn)
	if status, err := in.ReadString('\n'); err != nil || !strings.Contains(status, "101") {
		t.Fatalf("got %q, %v", status, err)
	}
	for line := "-"; strings.TrimSpace(line) != ""; {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if n := openCalls(t); n != 0 {
		t.Errorf("%d calls booked for the upgrade, want none", n)
	}
	io.WriteString(conn, "hello\n")
	if line, err := in.ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// A client that leaves takes its request with it: the server is told, and the
// place is free at once. The Call in the request's context must not cut the
// context off from the client's.
func TestAClientThatLeavesFreesItsPlace(t *testing.T) {
	a := newServer(t, "a")
	a.hold = make(chan struct{})
	gone := make(chan struct{})
	inner := a.Config.Handler
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			defer func() {
				if r.Context().Err() != nil {
					close(gone)
				}
			}()
		}
		inner.ServeHTTP(w, r)
	})
	url := run(t, addressesOf(a), "engine none", "")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(chat("hi", 0)))
		req.Header.Set("Content-Type", "application/json")
		_, err := client.Do(req)
		done <- err
	}()
	eventually(t, "the request arrived", func() bool { return a.count() == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("the server was not told that the client left")
	}
	eventually(t, "the lease ended", func() bool { return openCalls(t) == 0 })
}

// A server that answers before it has read the request must not have the rest
// of the body taken for new requests on the client's connection: neither where
// the body is read first, nor where it is passed on as it comes.
func TestAnEarlyAnswerLetsNothingOfTheBodyThrough(t *testing.T) {
	for _, tc := range []struct{ name, path, policy string }{
		{"read whole", "/v1/chat/completions", ""},
		{"longer than may be read", "/v1/chat/completions", "max_body 1KB"},
		{"not read at all", "/v1/embeddings", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var admin atomic.Int32
			a := newServer(t, "a")
			inner := a.Config.Handler
			a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/admin":
					admin.Add(1)
				case tc.path:
					w.WriteHeader(http.StatusRequestEntityTooLarge)
					return
				}
				inner.ServeHTTP(w, r)
			})
			url := run(t, addressesOf(a), "engine none\n"+tc.policy, "")
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()

			// One chunk of 3 MiB, made of requests of 64 bytes each, so that
			// wherever a buffer ends a request begins.
			smuggled := fmt.Sprintf("GET /admin HTTP/1.1\r\nHost: %s\r\nX: ", conn.RemoteAddr())
			smuggled += strings.Repeat("x", 60-len(smuggled)) + "\r\n\r\n"
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n",
				tc.path, conn.RemoteAddr(), 3<<20)
			go func() {
				for range 3 << 20 / (64 * 64) {
					if _, err := io.WriteString(conn, strings.Repeat(smuggled, 64)); err != nil {
						return
					}
				}
				fmt.Fprintf(conn, "\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", conn.RemoteAddr())
			}()
			in := bufio.NewReader(conn)
			r, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("status %d, want the server's 413", r.StatusCode)
			}
			_, _ = io.Copy(io.Discard, in)
			if n := admin.Load(); n != 0 {
				t.Errorf("%d requests out of the body reached the server", n)
			}
		})
	}
}
