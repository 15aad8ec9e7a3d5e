package health

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Servers that cannot be reached, through Caddy's own transport.
func TestUnreachable(t *testing.T) {
	rt := caddyTransport(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	_ = l.Close()
	if got := get(t, rt, closed, llmlb.Scrape{}); got.why != "connection refused" || !got.undialed || got.answered {
		t.Errorf("closed port: %+v", got)
	}
	if got := get(t, rt, "unix/"+filepath.Join(t.TempDir(), "none"), llmlb.Scrape{}); got.why != "no such socket" || !got.undialed {
		t.Errorf("missing socket: %+v", got)
	}
	if got := get(t, rt, "a.b.invalid:80", llmlb.Scrape{}); !got.undialed {
		t.Errorf("name that does not exist: %+v", got)
	}
	if got := get(t, rt, "127.0.0.1:80-90", llmlb.Scrape{}); got.why != badAddress {
		t.Errorf("port range: %+v", got)
	}
	// Accepted and never answered: the server is there.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if got := getWithin(t, rt, "http", silent.Addr().String(), llmlb.Scrape{}, 100*time.Millisecond); got.why != "timeout after 100ms" || got.undialed || got.answered {
		t.Errorf("silent server: %+v", got)
	}
}

// A server that dies while its connection is pooled is noticed as unreachable.
func TestPooledConnectionOfADeadServer(t *testing.T) {
	rt := caddyTransport(t, nil)
	s, address := engine(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x 1\n") })
	if got := get(t, rt, address, llmlb.Scrape{}); got.why != "" {
		t.Fatalf("first scrape: %+v", got)
	}
	s.Close()
	if got := get(t, rt, address, llmlb.Scrape{}); got.why != "connection refused" || !got.undialed {
		t.Errorf("after it died: %+v", got)
	}
}

// Two servers on unix sockets are two servers.
func TestUnixSockets(t *testing.T) {
	rt := caddyTransport(t, nil)
	dir := t.TempDir()
	for range 2 { // the second time over pooled connections
		for _, name := range []string{"a", "b"} {
			path := filepath.Join(dir, name)
			if _, err := os.Stat(path); err != nil {
				l, err := net.Listen("unix", path)
				if err != nil {
					t.Fatal(err)
				}
				s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, name+" "+r.Host)
				})}}
				s.Start()
				t.Cleanup(s.Close)
			}
			if got := get(t, rt, "unix/"+path, llmlb.Scrape{}); got.body != name+" localhost" || !got.own {
				t.Errorf("socket %s: %+v", name, got)
			}
		}
	}
}

// Scrapes use the TLS settings of the upstream.
func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x 1\n") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it is meant to see bad handshakes
	s.StartTLS()
	t.Cleanup(s.Close)
	address := strings.TrimPrefix(s.URL, "https://")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	without := caddyTransport(t, map[string]any{"tls": map[string]any{}})
	got := getWithin(t, without, "https", address, llmlb.Scrape{}, limit)
	if got.why != "x509: certificate signed by unknown authority" || got.undialed {
		t.Errorf("without the CA: %+v", got)
	}
	with := caddyTransport(t, map[string]any{"tls": map[string]any{
		"ca": map[string]any{"provider": "file", "pem_files": []string{ca}}, "server_name": "{http.reverse_proxy.upstream.host}",
	}})
	if got := getWithin(t, with, "https", address, llmlb.Scrape{}, limit); got.body != "x 1\n" {
		t.Errorf("with the CA: %+v", got)
	}
	except := caddyTransport(t, map[string]any{"tls": map[string]any{"except_ports": []string{"1"}}})
	_, plain := engine(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x 1\n") })
	if got := getWithin(t, except, "https", plain, llmlb.Scrape{}, limit); got.why != "server does not speak TLS" && got.why != "broken answer" {
		t.Errorf("TLS to a plain port: %+v", got)
	}
	_, port, _ := net.SplitHostPort(plain)
	except = caddyTransport(t, map[string]any{"tls": map[string]any{"except_ports": []string{port}}})
	if got := getWithin(t, except, "https", plain, llmlb.Scrape{}, limit); got.body != "x 1\n" {
		t.Errorf("to a port excepted from TLS: %+v", got)
	}
}

// Where the upstream expects the PROXY protocol, scrapes speak it too.
func TestProxyProtocol(t *testing.T) {
	rt := caddyTransport(t, map[string]any{"proxy_protocol": "v1"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	head := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 6)
		_, _ = io.ReadFull(c, b)
		head <- string(b)
	}()
	get(t, rt, l.Addr().String(), llmlb.Scrape{})
	select {
	case got := <-head:
		if got != "PROXY " {
			t.Errorf("connection begins with %q", got)
		}
	case <-time.After(limit):
		t.Error("nothing was sent")
	}
}

// The key under which Caddy's transport looks for the socket is Caddy's.
func TestDialInfoKeyIsCaddys(t *testing.T) {
	want := reverseproxy.DialInfo{Network: "tcp", Address: "a:1"}
	if got, ok := reverseproxy.GetDialInfo(context.WithValue(t.Context(), dialInfoKey, want)); !ok || got != want {
		t.Error("Caddy no longer finds the dial info under this key")
	}
}

// A deadline that passes while dialing (packets dropped, say) means that the
// server was not reached; one that passes while waiting for a free connection,
// or on a connection, does not.
func TestWhetherAConnectionWasMade(t *testing.T) {
	late := context.DeadlineExceeded
	for what, c := range map[string]struct {
		hooks func(*httptrace.ClientTrace)
		want  bool
	}{
		"waiting for a connection": {func(*httptrace.ClientTrace) {}, false},
		"looking up the name":      {func(h *httptrace.ClientTrace) { h.DNSStart(httptrace.DNSStartInfo{}) }, true},
		"dialing":                  {func(h *httptrace.ClientTrace) { h.ConnectStart("tcp", "a:1") }, true},
		"in the TLS handshake": {func(h *httptrace.ClientTrace) {
			h.ConnectStart("tcp", "a:1")
			h.ConnectDone("tcp", "a:1", nil)
		}, false},
		"waiting for the answer": {func(h *httptrace.ClientTrace) {
			h.ConnectStart("tcp", "a:1")
			h.ConnectDone("tcp", "a:1", nil)
			h.GotConn(httptrace.GotConnInfo{})
		}, false},
		"one address refused, the other silent": {func(h *httptrace.ClientTrace) {
			h.ConnectStart("tcp", "[::1]:1")
			h.ConnectDone("tcp", "[::1]:1", syscall.ECONNREFUSED)
			h.ConnectStart("tcp", "a:1")
		}, true},
		"pooled connection dead, dialing anew": {func(h *httptrace.ClientTrace) {
			h.GotConn(httptrace.GotConnInfo{Reused: true})
			h.ConnectStart("tcp", "a:1")
		}, true},
	} {
		t.Run(what, func(t *testing.T) {
			var d dialTrace
			c.hooks(httptrace.ContextClientTrace(d.trace(t.Context())))
			if got := d.failed(late); got != c.want {
				t.Errorf("not reached: %v, want %v", got, c.want)
			}
		})
	}
}
