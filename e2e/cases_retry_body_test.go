package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// bodies to send again: as short as can be, larger than any buffer of a
// connection, and one of unknown length.
func bodies() map[string]io.Reader {
	return map[string]io.Reader{
		"2 bytes":        strings.NewReader("{}"),
		"68 kB":          strings.NewReader(chat(false, "", prose("long", 68_000))),
		"2 MiB, chunked": io.MultiReader(strings.NewReader(chat(false, "", prose("very long", 2<<20)))),
	}
}

// whole is what a body is, without reading it up.
func whole(t *testing.T, body io.Reader) (text []byte, again io.Reader) {
	t.Helper()
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	again = bytes.NewReader(text)
	if _, known := body.(*strings.Reader); !known {
		again = io.MultiReader(again)
	}
	return text, again
}

// A server that is not there costs its requests nothing: each is answered by the
// other one, which gets it once and whole, however long it is.
func TestARefusedRequestArrivesWholeElsewhere(t *testing.T) {
	for _, mode := range failovers {
		for name, body := range bodies() {
			t.Run(mode.name+"/"+name, func(t *testing.T) {
				g, a, b := steered(t, mode.options)
				// From here on nothing is scraped: only requests can find out
				// that the server is gone.
				if err := g.load(fmt.Sprintf("llm_proxy %s %s {\nscrape_interval 1m\nstale_after 10m\n%s%s}\n", a.addr(), b.addr(), named(a, b), mode.options)); err != nil {
					t.Fatal(err)
				}
				a.goDown()
				want, body := whole(t, body)
				r := g.send("/v1/chat/completions", body)
				if r.status != http.StatusOK || r.endpoint() != "b" {
					t.Fatalf("status %d from %q: %s", r.status, r.endpoint(), r.body)
				}
				if got := r.header.Get("X-LLM-Attempts"); got != "2" {
					t.Errorf("%s attempts, want 2: the server that is gone was to be tried first", got)
				}
				if n := b.count(); n != 1 {
					t.Errorf("the other server got it %d times", n)
				}
				if !bytes.Equal(b.lastBody(), want) {
					t.Errorf("the other server got %d bytes of %d, or other ones", len(b.lastBody()), len(want))
				}
			})
		}
	}
}

// A server that has read the request and then fails makes no difference to what
// the next one gets.
func TestAFailedRequestArrivesWholeElsewhere(t *testing.T) {
	for name, fail := range map[string]func(http.ResponseWriter, *http.Request, []byte){
		"500":            status(http.StatusInternalServerError, "", `{"error":{"message":"boom"}}`),
		"closed":         closes,
		"role, then cut": cuts(1),
	} {
		for size, body := range bodies() {
			t.Run(name+"/"+size, func(t *testing.T) {
				g, a, b := steered(t, unshared)
				a.answers(fail)
				want, body := whole(t, body)
				r := g.send("/v1/chat/completions", body)
				if r.status != http.StatusOK || r.endpoint() != "b" {
					t.Fatalf("status %d from %q: %s", r.status, r.endpoint(), r.body)
				}
				for name, x := range map[string]*backend{"a": a, "b": b} {
					if n := x.count(); n != 1 || !bytes.Equal(x.lastBody(), want) {
						t.Errorf("%s got it %d times, %d bytes of %d", name, n, len(x.lastBody()), len(want))
					}
				}
			})
		}
	}
}

// brief is an engine behind a server that closes idle connections soon.
type brief struct {
	*http.Server
	addr string
	hits atomic.Int64
}

func newBrief(t *testing.T, idle time.Duration) *brief {
	t.Helper()
	l := listen(t)
	b := &brief{addr: l.Addr().String()}
	b.Server = &http.Server{IdleTimeout: idle, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			b.hits.Add(1)
		}
		body, _ := io.ReadAll(r.Body)
		answer(w, r, body)
	})}
	go func() { _ = b.Serve(l) }()
	t.Cleanup(func() { b.Close() })
	return b
}

// Engines close a connection that was idle for some seconds, which is when a
// request may be on its way on it. Three hundred requests are sent just before,
// at and after that moment, sixty to each of five servers, so that the test need
// not take half a minute: all are served, and none twice.
func TestConnectionsThatCloseWhenIdle(t *testing.T) {
	const servers, each = 5, 60
	const idle = 100 * time.Millisecond
	var site strings.Builder
	list := make([]*brief, servers)
	for i := range list {
		list[i] = newBrief(t, idle)
		fmt.Fprintf(&site, "handle_path /%d/* {\nllm_proxy %s {\npool p%d\nengine none\nfailover unsent\n}\n}\n", i, list[i].addr, i)
	}
	g := start(t, site.String())
	var all sync.WaitGroup
	for i := range list {
		all.Go(func() {
			client := &http.Client{Transport: new(http.Transport)}
			defer client.CloseIdleConnections()
			for n := range each {
				// The case itself: gaps of 90 to 110 ms.
				time.Sleep(idle + time.Duration(n%21-10)*time.Millisecond)
				res, err := client.Post(fmt.Sprintf("%s/%d/v1/chat/completions", g.url, i), "application/json", strings.NewReader(distinct(n)))
				if err != nil {
					t.Error(err)
					return
				}
				text, err := io.ReadAll(res.Body)
				res.Body.Close()
				if res.StatusCode != http.StatusOK || err != nil {
					t.Errorf("server %d, request %d: status %d, %v: %s", i, n, res.StatusCode, err, text)
				}
			}
		})
	}
	all.Wait()
	hits := int64(0)
	for _, b := range list {
		hits += b.hits.Load()
	}
	if hits != servers*each {
		t.Errorf("%d requests were handled, want %d: none twice, none lost", hits, servers*each)
	}
}

// An engine closes the connection after each reply without having said so, and
// only when the next request is on it. Nobody notices, and no request is
// generated twice.
func TestEnginesThatCloseAfterEachReply(t *testing.T) {
	for _, mode := range failovers {
		t.Run(mode.name, func(t *testing.T) {
			l := listen(t)
			t.Cleanup(func() { l.Close() })
			var handled, closed atomic.Int64
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						in := bufio.NewReader(c)
						req, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						body, _ := io.ReadAll(req.Body)
						handled.Add(1)
						text := fmt.Sprintf(`{"choices":[{"message":{"content":"%d bytes"},"finish_reason":"stop"}]}`, len(body))
						fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
						if _, err := in.ReadByte(); err == nil {
							closed.Add(1)
							_ = c.(*net.TCPConn).SetLinger(0)
						}
					}()
				}
			}()
			g := start(t, fmt.Sprintf("llm_proxy %s {\nengine none\n%s}\n", l.Addr(), mode.options))
			const n = 30
			for i := range n {
				body := chat(false, "", prose(fmt.Sprint(i), 700+i))
				r := g.post(body)
				if want := fmt.Sprintf("%d bytes", len(body)); r.status != http.StatusOK || !strings.Contains(r.body, want) {
					t.Errorf("request %d: status %d: %s; want %s", i, r.status, r.body, want)
				}
			}
			if got := handled.Load(); got != n {
				t.Errorf("%d requests were handled, want %d", got, n)
			}
			// Twice is enough to know such a server; then nothing is sent on
			// a used connection any more.
			if got := closed.Load(); got == 0 || got > 2 {
				t.Errorf("%d requests met a connection that was about to close, want 1 or 2", got)
			}
		})
	}
}
