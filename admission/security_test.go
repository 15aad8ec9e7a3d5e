package admission

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Errors tell the client what it can act on and nothing about the machines
// behind; the log has the rest.
func TestErrorsShowNoAddresses(t *testing.T) {
	silent := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	broken := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, test := range []struct {
		name     string
		upstream func(*testing.T) string
		proxy    object
		status   int
		code     string
	}{
		{"refused", nobody, nil, 502, "upstream_error"},
		{"broke off", func(t *testing.T) string { return newEngine(t, broken).address() }, nil, 502, "upstream_error"},
		{
			"silent", func(t *testing.T) string { return newEngine(t, silent).address() },
			object{"transport": object{"protocol": "llm", "first_token_min": "50ms", "first_token_max": "50ms"}},
			504, "upstream_timeout",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			address := test.upstream(t)
			g := start(t, site{upstreams: []string{address}, proxy: test.proxy, admission: object{"queue": object{"max_wait": 0}}})
			resp, body := g.post(chatPath, streamed)
			wantError(t, resp, body, test.status, test.code)
			var all strings.Builder
			_ = resp.Header.Write(&all)
			all.WriteString(body)
			host, port, _ := net.SplitHostPort(address)
			for _, leak := range []string{host, port, "dial", "EOF", "tcp", "net/http", "timeout awaiting"} {
				if strings.Contains(all.String(), leak) {
					t.Errorf("the answer tells %q: %s", leak, all.String())
				}
			}
			if log, _ := g.logged(1); !strings.Contains(log, `"answering for a failed upstream"`) || !strings.Contains(log, "llm_error") || !strings.Contains(log, `"address":"`+address+`"`) {
				t.Error("the log does not tell the cause, or not the server")
			}
		})
	}
}

// Nothing of what people write to a model may be read in a log or an error.
func TestPromptsAppearNowhere(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	g := start(t, site{upstreams: []string{e.address()}})
	bodies := []string{
		`{"model":"m","messages":[{"role":"user","content":"SECRET123"}],"stream":true}`,
		`{"model":"m","messages":[{"role":"user","content":"SECRET123`,
		`{"model":"m","model":"x","messages":[{"role":"user","content":"SECRET123"}]}`,
		`{"model":"m","rid":"SECRET123"}`,
		`{"SECRET123":1,"priority":1}`,
	}
	for _, body := range bodies {
		_, answer := g.do(http.MethodPost, chatPath, strings.NewReader(body), http.Header{"Authorization": {"Bearer SECRET124"}})
		if strings.Contains(answer, "SECRET") {
			t.Errorf("the answer has it: %s", answer)
		}
	}
	if log, _ := g.logged(len(bodies)); strings.Contains(log, "SECRET") || !strings.Contains(log, "llm_outcome") {
		t.Error("the log has it, or has nothing")
	}
}

// A client cannot choose the engine's rank or worker, nor pretend to be us.
func TestSteeringHeadersAreRemoved(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}})
	header := http.Header{"X-Kept": {"yes"}, "Te": {"trailers"}}
	for _, name := range slices.Concat(stripped, keys) {
		header[name] = []string{"1"}
	}
	if resp, body := g.do(http.MethodPost, chatPath, strings.NewReader(plain), header); resp.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", resp.StatusCode, body)
	}
	seen, _ := e.requests()
	for _, name := range slices.Concat(stripped, keys) {
		if seen[0].Header.Get(name) != "" {
			t.Errorf("%s reached the engine", name)
		}
	}
	if seen[0].Header.Get("X-Kept") != "yes" {
		t.Error("other headers are lost")
	}
}

// A WebSocket on a served path passes; a change to HTTP/2 in clear text, through
// which every path could be asked for, does not.
func TestUpgrades(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + r.Header.Get("Upgrade") + "\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString("echo " + line)
		_ = rw.Flush()
	})
	g := start(t, site{upstreams: []string{e.address()}, admission: object{"paths": []string{"/v1/realtime"}}})

	conn := g.dial()
	_, _ = io.WriteString(conn, "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", resp, err)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if line, err := r.ReadString('\n'); err != nil || line != "echo hello\n" {
		t.Errorf("through the socket came %q, %v", line, err)
	}
	_, _ = io.Copy(io.Discard, r) // until the tunnel is gone: Caddy writes to those it finds open when it stops
	_ = conn.Close()
	for _, up := range []string{"h2c", "h2c\r\nUpgrade: websocket", "websocket, h2c"} {
		resp, _ := g.raw("GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " + up + "\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
		if resp.StatusCode != http.StatusNoContent {
			t.Errorf("an upgrade to %q was answered %d", up, resp.StatusCode)
		}
	}
	g.calm()
}
