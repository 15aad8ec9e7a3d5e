package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// wire is an inference server on bare TCP. It keeps the heads of requests as
// they came, which no HTTP server shows.
type wire struct {
	net.Listener
	mu    sync.Mutex
	heads []string
	// serve reads the rest of a request and answers it; it reports whether the
	// connection goes on.
	serve func(head string, in *bufio.Reader, c net.Conn) bool
}

func newWire(t *testing.T, serve func(head string, in *bufio.Reader, c net.Conn) bool) *wire {
	t.Helper()
	w := &wire{Listener: listen(t), serve: serve}
	var all sync.WaitGroup
	open := make(map[net.Conn]bool)
	all.Go(func() {
		for {
			c, err := w.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			open[c] = true
			w.mu.Unlock()
			all.Go(func() {
				w.connection(c)
				c.Close()
				w.mu.Lock()
				delete(open, c)
				w.mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		w.Close()
		w.mu.Lock()
		for c := range open {
			c.Close()
		}
		w.mu.Unlock()
		all.Wait()
	})
	return w
}

func (w *wire) addr() string { return w.Listener.Addr().String() }

func (w *wire) connection(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		var head strings.Builder
		for {
			line, err := in.ReadString('\n')
			head.WriteString(line)
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
		}
		if strings.Contains(head.String(), "User-Agent: caddy-llmlb") { // the gateway's own questions
			io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		w.mu.Lock()
		w.heads = append(w.heads, head.String())
		serve := w.serve
		w.mu.Unlock()
		if !serve(head.String(), in, c) {
			return
		}
	}
}

// arrived returns the heads of the clients' requests so far.
func (w *wire) arrived() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.heads)
}

// wholeJSON reads a body to the end that its head announces, and answers it.
func wholeJSON(head string, in *bufio.Reader, c net.Conn) bool {
	lower := strings.ToLower(head)
	if strings.Contains(lower, "transfer-encoding: chunked") {
		if _, err := io.Copy(io.Discard, httputil.NewChunkedReader(in)); err != nil {
			return false
		}
		if _, err := in.ReadString('\n'); err != nil { // the trailer's end
			return false
		}
	} else if _, length, ok := strings.Cut(lower, "content-length: "); ok {
		var n int64
		fmt.Sscan(length, &n)
		if _, err := io.CopyN(io.Discard, in, n); err != nil {
			return false
		}
	}
	_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	return err == nil
}

// dial opens a bare connection to the gateway, which nothing holds open for
// longer than a test takes.
func (g *gateway) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", g.host())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// host is what the gateway listens on, and is called in requests.
func (g *gateway) host() string { return strings.TrimPrefix(g.url, "http://") }

// head is the beginning of a bare request.
func (g *gateway) head(method, path string, fields ...string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: " + g.host() + "\r\n" + strings.Join(append(fields, "", ""), "\r\n")
}

// inChunks frames pieces of a body as chunks, the last one included.
func inChunks(pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	b.WriteString("0\r\n\r\n")
	return b.String()
}

// versions are clients that speak one version of HTTP each.
func versions(t *testing.T) map[string]*http.Client {
	t.Helper()
	clients := make(map[string]*http.Client)
	for name, set := range map[string]func(*http.Protocols){
		"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2":   func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		var p http.Protocols
		set(&p)
		transport := &http.Transport{Protocols: &p}
		t.Cleanup(transport.CloseIdleConnections)
		clients[name] = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	}
	return clients
}

// unmeasured hides a body's length, so that it is sent without one.
func unmeasured(body string) io.Reader { return io.MultiReader(strings.NewReader(body)) }

// framings are the two ways to send a body, by name.
var framings = map[string]func(string) io.Reader{
	"with its length": func(body string) io.Reader { return strings.NewReader(body) },
	"without length":  unmeasured,
}

// ofLength is a chat body of exactly n bytes.
func ofLength(n int) string {
	return chat(false, "", strings.Repeat("x", n-len(chat(false, "", ""))))
}
