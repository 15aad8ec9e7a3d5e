package transport

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// hesitant is a connection whose first write returns late, as when the processor is
// taken from its writer: the head of the request has gone out, of the body nothing.
type hesitant struct {
	net.Conn
	once sync.Once
	goOn <-chan struct{}
}

func (h *hesitant) Write(p []byte) (int, error) {
	n, err := h.Conn.Write(p)
	h.once.Do(func() { <-h.goOn })
	return n, err
}

// A server begins to answer when it has seen the head of a request. The body is given
// up with that, but not by the attempt that is about to send it: the server gets all of
// it, and the client a whole answer.
func TestABodyIsSentThoughTheAnswerCameBeforeIt(t *testing.T) {
	tr := provisioned(t, `{}`)
	goOn := make(chan struct{})
	got := make(chan string, 1)
	serve := func(conn net.Conn) {
		defer conn.Close()
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"+events(role, hello))
		body, err := io.ReadAll(req.Body)
		if got <- string(body); err != nil {
			t.Errorf("reading the body: %v", err)
			return
		}
		io.WriteString(conn, events(stop, "[DONE]"))
	}
	w := newWorld(t, tr, "10.0.0.1:8000")
	tr.Transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go serve(far)
		return &hesitant{Conn: near, goOn: goOn}, nil
	}
	c := w.call()
	want := strings.Repeat("x", 2*inOneWrite)
	c.LendBody([]byte(want), func(b []byte) { clear(b) })
	c.Answering = true
	req := w.request(t.Context(), c)
	req.Body = c.BodyReader()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if !c.GivenUp() {
		t.Error("the body is still held though the answer has begun")
	}
	close(goOn)
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(text), "[DONE]") {
		t.Errorf("the answer is %q, %v; want a whole one", text, err)
	}
	if got := <-got; got != want {
		t.Errorf("%d bytes of the body came, want %d", len(got), len(want))
	}
	w.calm()
}
