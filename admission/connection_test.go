package admission

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A server that hangs up after each streamed reply without a word, as llama.cpp
// does, costs no client its answer, and no request is worked on twice.
func TestServerThatHangsUpCostsNobodyAnAnswer(t *testing.T) {
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
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				if body, err := io.ReadAll(req.Body); err != nil || string(body) != streamed {
					return
				}
				handled.Add(1)
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"+
					chunked("data: "+textChunk+"\n\n", "data: [DONE]\n\n"))
			}()
		}
	}()
	g := start(t, site{upstreams: []string{ln.Addr().String()}})
	const clients, each = 10, 30
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			c := client(t)
			for range each {
				resp, err := c.Post("http://"+g.address+chatPath, "application/json", strings.NewReader(streamed))
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
					t.Errorf("got %d %q, %v", resp.StatusCode, body, err)
				}
			}
		})
	}
	wg.Wait()
	if n := handled.Load(); n != clients*each {
		t.Errorf("the server worked on %d requests of %d", n, clients*each)
	}
	g.calm()
}

// A client that leaves before the answer began frees the engine at once, and
// nobody else is asked.
func TestClientLeavesBeforeTheAnswer(t *testing.T) {
	arrived, left := make(chan struct{}, 2), make(chan struct{}, 2)
	answer := func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	}
	a, b := newEngine(t, answer), newEngine(t, answer)
	g := start(t, site{upstreams: []string{a.address(), b.address()}})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.address+chatPath, strings.NewReader(streamed))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-arrived
		cancel()
	}()
	if resp, err := client(t).Do(req); err == nil {
		resp.Body.Close()
		t.Error("the request was answered")
	}
	<-left
	g.calm()
	entry := g.access()
	if entry["status"] != float64(statusClientGone) || entry["llm_outcome"] != llmlb.ClientGone.String() {
		t.Errorf("logged with status %v and outcome %v", entry["status"], entry["llm_outcome"])
	}
	seenA, _ := a.requests()
	seenB, _ := b.requests()
	if len(seenA)+len(seenB) != 1 {
		t.Errorf("the engines got %d requests", len(seenA)+len(seenB))
	}
}
