package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"
)

// A server's connection is reset in the middle of its stream. The client has all
// that came, and an end that no client takes for one: a connection that closes
// without a last chunk, or a stream that is reset while its connection lives on.
func TestAServerThatDiesInItsStream(t *testing.T) {
	delivered := events(answerEvents[:4]...) // role and three deltas
	want := strings.Join(delivered, "")
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			a, b := newBackend(t), newBackend(t)
			read := make(chan struct{})
			inTurn([]*backend{a, b}, plays(eventStream, delivered, func(w http.ResponseWriter, r *http.Request) {
				waits(r, read)
				breaks(w, r)
			}), answer)
			g := secure(t, fmt.Sprintf("llm_proxy %s %s {\n%s}\n", a.addr(), b.addr(), fast))
			client := g.over(t, protocol)
			res, err := client.Post(g.url+chatPath, "application/json", strings.NewReader(chat(true, "", "hi")))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
				t.Errorf("before the reset: %q, %v", got, err)
			}
			close(read)
			rest, err := io.ReadAll(res.Body)
			if len(rest) > 0 || !brokenOff(protocol, err) {
				t.Errorf("at the reset: %q and %v, want the stream to be broken off", rest, err)
			}
			if n := hits(a, b); n != 1 {
				t.Errorf("%d servers were asked, want 1", n)
			}
			g.ended(map[string]int{"truncated": 1})
			if r, err := g.ask(client, chat(true, "", "another")); err != nil || r.body != streamed() {
				t.Errorf("the next request: %v, %q", err, r.body)
			}
		})
	}
}

// On the wire of HTTP/1.1 there is no last chunk, and the connection closes.
func TestABrokenStreamHasNoLastChunk(t *testing.T) {
	delivered := events(answerEvents[:4]...)
	for _, tc := range []struct {
		name, options string
		end           func(http.ResponseWriter, *http.Request)
	}{
		{"reset", "", breaks},
		{"no finish marker", "", nil},
		{"stalled", "stall_timeout 300ms\n", falls},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g, a, b := pair(t, tc.options)
			inTurn([]*backend{a, b}, plays(eventStream, delivered, tc.end), answer)
			host := strings.TrimPrefix(g.url, "http://")
			c, err := net.Dial("tcp", host)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			body := chat(true, "", "hi")
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", chatPath, host, len(body), body)
			all, err := io.ReadAll(c)
			if err != nil {
				t.Fatalf("the connection did not close: %v after %q", err, all)
			}
			head, chunks, found := strings.Cut(string(all), "\r\n\r\n")
			if !found || !strings.Contains(head, "Transfer-Encoding: chunked") {
				t.Fatalf("not an answer in chunks: %q", all)
			}
			if strings.HasSuffix(chunks, "0\r\n\r\n") {
				t.Errorf("a last chunk was sent: %q", chunks)
			}
			got, err := io.ReadAll(httputil.NewChunkedReader(bufio.NewReader(strings.NewReader(chunks))))
			// A reset takes with it what has not been read from its connection.
			if want := strings.Join(delivered, ""); err == nil || !strings.HasPrefix(want, string(got)) || tc.name != "reset" && string(got) != want {
				t.Errorf("the chunks hold %q and end with %v", got, err)
			}
			g.ended(map[string]int{"truncated": 1})
		})
	}
}

// A server sends a head, and little or nothing of the body that it announces. The
// client never gets an empty reply: where the request may have been read, an error
// in JSON and no second attempt; else the whole answer of another server.
func TestAServerThatClosesBeforeTheBody(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
	for name, text := range map[string]string{"0 of 500 bytes": head, "7 of 500 bytes": head + `{"id":"`} {
		t.Run(name, func(t *testing.T) {
			t.Run("unsent", func(t *testing.T) {
				// The quickest of a few counts: the machine may be busy with others.
				const tries = 4
				quickest := time.Minute
				g, a, b := pair(t, "failover unsent\n")
				inTurn([]*backend{a, b}, says(text))
				for range tries {
					began := time.Now()
					r, err := g.fetch(http.DefaultClient, chatPath, chat(false, "", "hi"))
					quickest = min(quickest, time.Since(began))
					if err != nil {
						t.Errorf("the answer broke off: %v", err)
					}
					r.isError(t, http.StatusBadGateway)
				}
				if quickest > 600*time.Millisecond {
					t.Errorf("an answer took %v, want 200ms on a quiet machine", quickest)
				}
				if n := hits(a, b); n != tries {
					t.Errorf("servers were asked %d times for %d requests", n, tries)
				}
				g.ended(map[string]int{"engine_error": tries})
			})
			t.Run("no_token", func(t *testing.T) {
				g, a, b := pair(t, "")
				inTurn([]*backend{a, b}, says(text), answer)
				r, err := g.fetch(http.DefaultClient, chatPath, chat(false, "", "hi"))
				if err != nil || r.status != http.StatusOK || !strings.Contains(r.body, `"content":"hello"`) {
					t.Errorf("status %d, %q, %v; want the other server's whole answer", r.status, r.body, err)
				}
				if a.count() != 1 || b.count() != 1 {
					t.Errorf("the servers were asked %d and %d times, want once each", a.count(), b.count())
				}
				g.ended(map[string]int{"engine_error": 1, "served": 1})
			})
		})
	}
}
