package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// echoes answers a WebSocket's upgrade and sends every line back.
func echoes(t *testing.T) part {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		for rw.Flush() == nil {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(rw, "echo "+line)
		}
	}
}

// webSocket opens one at the path /ws.
func (g *gateway) webSocket(t *testing.T) (c net.Conn, in *bufio.Reader) {
	t.Helper()
	c = g.dial(t)
	io.WriteString(c, g.head("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket"))
	in = bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v; want an upgrade", res, err)
	}
	return c, in
}

// repeats sends a line over a WebSocket and fails the test unless it comes back.
func repeats(t *testing.T, c net.Conn, in *bufio.Reader, line string) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(c, line)
	if got, err := in.ReadString('\n'); err != nil || got != "echo "+line+"\n" {
		t.Errorf("heard %q, %v; want %q back", got, err, line)
	}
}

// A stream and a WebSocket live through a reload that has nothing to do with them,
// and through one that changes how their pool chooses. Neither loses a byte.
func TestAStreamAndAWebSocketOutliveReloads(t *testing.T) {
	a := newBackend(t)
	site := func(version int, options string) string {
		return fmt.Sprintf("respond /version %d\nllm_proxy %s {\n%s%s%spaths + /ws\nstream_close_delay 5m\n%s}\n", version, a.addr(), fast, patient, named(a), options)
	}
	g := start(t, site(1, ""))
	socket, next := echoes(t), make(chan struct{})
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if r.URL.Path == "/ws" {
			socket(w, r, body)
			return
		}
		w.Header().Set("Content-Type", eventStream)
		for i, event := range answerEvents {
			if i > 1 && !waits(r, next) {
				return
			}
			send(w, event)
		}
	})
	finish := holdStream(g, chat(true, "", "runs all the while"))
	c, in := g.webSocket(t)
	repeats(t, c, in, "before")

	for i, options := range []string{"", "affinity 0.6\nkv_limit 90%\nqueue 5\nstrategy prefix_spill\n"} {
		if err := g.load(site(i+2, options)); err != nil {
			t.Fatal(err)
		}
		select {
		case next <- struct{}{}: // one more event of the stream
		case <-time.After(20 * time.Second):
			t.Fatal("the stream is gone")
		}
		repeats(t, c, in, fmt.Sprint("after reload ", i+1))
		if n := g.endpoint("a").Calls; n < 1 {
			t.Errorf("%d calls are counted after reload %d, want that of the stream", n, i+1)
		}
	}
	close(next)
	finish()
	repeats(t, c, in, "to the end")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	g.idle(t)
}

// How long a WebSocket may stay after a reload is an option of Caddy's: it is
// kept for that long, and no longer.
func TestAWebSocketIsKeptForItsDelay(t *testing.T) {
	const delay = 3 * time.Second // in which a slow machine hears something too
	a := newBackend(t)
	a.answers(echoes(t))
	site := func(version int) string {
		return fmt.Sprintf("respond /version %d\nllm_proxy %s {\n%s%spaths + /ws\nstream_close_delay %v\n}\n", version, a.addr(), fast, named(a), delay)
	}
	g := start(t, site(1))
	c, in := g.webSocket(t)
	began := time.Now()
	if err := g.load(site(2)); err != nil {
		t.Fatal(err)
	}
	repeats(t, c, in, "after the reload")
	rest, err := io.ReadAll(in)
	if took := time.Since(began); took < delay {
		t.Errorf("closed after %v, want %v", took, delay)
	}
	if err != nil && !strings.Contains(err.Error(), "reset") || strings.Contains(string(rest), "echo") {
		t.Errorf("then came %q, %v; want its end", rest, err)
	}
	g.idle(t)
}
