package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// gate makes the server hold its streams after the second event until open.
func gate(b *backend) (open func()) {
	ch := make(chan struct{})
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if !strings.Contains(string(body), `"stream":true`) {
			answer(w, r, body)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i, e := range answerEvents {
			if i == 2 {
				select {
				case <-ch:
				case <-r.Context().Done():
					return
				}
			}
			send(w, e)
		}
	})
	return sync.OnceFunc(func() { close(ch) })
}

// streams opens n streams and waits until all run at the servers.
func streams(g *gateway, n int) (finish func()) {
	g.t.Helper()
	var list []*http.Response
	for i := range n {
		res, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat(true, "", prose(fmt.Sprint("stream", i), 600))))
		if err != nil {
			g.t.Fatal(err)
		}
		list = append(list, res)
	}
	return func() {
		g.t.Helper()
		for i, res := range list {
			if got := read(g.t, res).body; got != streamed() {
				g.t.Errorf("stream %d was cut or changed: %q", i, got)
			}
		}
	}
}

// Twenty streams run over thirty reloads. Every one is whole, the servers are
// scraped no more often than before, and no goroutine stays behind.
func TestReloadsLoseNothing(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	site := func(i int) string {
		return fmt.Sprintf("respond /version%d %d\nllm_proxy %s %s {\n%s%saffinity 0.%d\n}\n", i, 200, a.addr(), b.addr(), fast, named(a, b), 7+i%3)
	}
	g := start(t, site(0))
	openA, openB := gate(a), gate(b)
	finish := streams(g, 20)

	// A prefix is warm somewhere before the reloads.
	preamble := prose("kept over reloads", 8000)
	home := g.post(chat(false, preamble, "before")).endpoint()

	if err := g.load(site(1)); err != nil {
		t.Fatal(err)
	}
	a.seen()
	goroutines := settled(t)
	for i := range 30 {
		if err := g.load(site(i + 2)); err != nil {
			t.Fatal(err)
		}
		if i%10 == 5 {
			// A configuration that cannot start changes nothing.
			if err := g.load(fmt.Sprintf("llm_proxy %s {\nscrape_interval 9s\nstale_after 1s\n}\n", a.addr())); err == nil {
				t.Fatal("a contradictory configuration was loaded")
			}
		}
	}
	a.seen()
	if got := settled(t); got > goroutines+10 {
		t.Errorf("%d goroutines after 30 reloads, %d before", got, goroutines)
	}
	open := 0
	for _, e := range g.pools()[0].Endpoints {
		open += e.Calls
	}
	if open != 20 {
		t.Errorf("%d open calls are counted after the reloads, want 20", open)
	}
	// One loop per server: over a second, no more scrapes than one loop makes.
	a.mu.Lock()
	before, began := a.scrapes, time.Now()
	a.mu.Unlock()
	a.await("ten scrapes", func() bool { return a.scrapes >= before+10 })
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("ten scrapes in %v, want about 500 ms: more than one loop runs", took)
	}

	openA()
	openB()
	finish()
	eventually(t, "all leases to end", func() bool {
		for _, e := range g.pools()[0].Endpoints {
			if e.Calls+e.PrefillTokens+e.OutputTokens != 0 {
				return false
			}
		}
		return true
	})
	// To leave the home it has to be known. These servers compute a prompt in no
	// time, so chance may do that.
	if r := g.post(chat(false, preamble, "after")); (r.endpoint() != home || r.decision() != "warm") && r.decision() != "spill:load" {
		t.Errorf("the prefix is on %s, and the call went to %s (%s)", home, r.endpoint(), r.decision())
	}
}

// settled returns the number of goroutines once it stops falling.
func settled(t *testing.T) int {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	last, same := runtime.NumGoroutine(), 0
	eventually(t, "goroutines to end", func() bool {
		n := runtime.NumGoroutine()
		if n < last {
			last, same = n, 0
		}
		same++
		return same > 60
	})
	return last
}

// A reload that fails, at adapting, provisioning or starting, leaves the old
// configuration serving, and the open stream whole.
func TestFailedReloadChangesNothing(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	good := fmt.Sprintf("llm_proxy %s {\n%sendpoint %s {\nname one\n}\n}\n", a.addr(), fast, a.addr())
	g := start(t, good)
	open := gate(a)
	defer open()
	finish := streams(g, 1)

	if err := g.load(fmt.Sprintf("llm_proxy %s {\nno_such_option 1\n}\n", b.addr())); err == nil {
		t.Error("an unknown option was accepted")
	}
	if err := g.load(fmt.Sprintf("llm_proxy %s {\nscrape_interval 9s\nstale_after 1s\n}\n", b.addr())); err == nil {
		t.Error("contradictory options were accepted")
	}
	// A valid configuration whose second listener is taken fails at the start.
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	config, err := g.adapt(fmt.Sprintf("llm_proxy %s {\nendpoint %s {\nname two\ndrain\n}\n}\n", a.addr(), a.addr()))
	if err != nil {
		t.Fatal(err)
	}
	config = []byte(strings.Replace(string(config), `"servers":{`, `"servers":{"busy":{"listen":["`+taken.Addr().String()+`"]},`, 1))
	if err := caddy.Load(config, true); err == nil {
		t.Error("a configuration with a taken listener was started")
	}

	if row := g.endpoint("one"); row.State != "up" || row.Calls != 1 {
		t.Errorf("endpoint is %s with %d calls, want up with 1", row.State, row.Calls)
	}
	if r := g.post(chat(false, "", "still there?")); r.status != http.StatusOK || r.endpoint() != "one" {
		t.Errorf("status %d from %s", r.status, r.endpoint())
	}
	a.seen()
	open()
	finish()
}

// A WebSocket through the same site lives through a reload for as long as
// Caddy's own stream_close_delay says.
func TestWebSocketLivesThroughAReload(t *testing.T) {
	a := newBackend(t)
	a.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		io.WriteString(rw, "echo "+line)
		rw.Flush()
	})
	site := func(i int) string {
		return fmt.Sprintf("respond /v%d 200\nllm_proxy %s {\n%sstream_close_delay 5m\npaths + /ws\n}\n", i, a.addr(), fast)
	}
	g := start(t, site(0))
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", strings.TrimPrefix(g.url, "http://"))
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 101") {
		t.Fatalf("%v: %q", err, buf[:n])
	}
	if err := g.load(site(1)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "hello\n")
	rest, err := io.ReadAll(c)
	if err != nil || string(rest) != "echo hello\n" {
		t.Errorf("after the reload: %q, %v", rest, err)
	}
}
