package health

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// limit bounds a real exchange; only a test that fails waits so long.
const limit = 10 * time.Second

// caddyTransport is Caddy's own transport, configured as JSON would.
func caddyTransport(t testing.TB, config map[string]any) http.RoundTripper {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	if config == nil {
		config = map[string]any{}
	}
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ctx.LoadModuleByID("http.reverse_proxy.transport.http", raw)
	if err != nil {
		t.Fatalf("loading the transport: %v", err)
	}
	return m.(http.RoundTripper)
}

func engine(t *testing.T, f http.HandlerFunc) (s *httptest.Server, address string) {
	t.Helper()
	s = httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s, strings.TrimPrefix(s.URL, "http://")
}

// fetched is what an exchange came to.
type fetched struct {
	why                            reason
	body                           string
	own, answered, undialed, final bool
}

func get(t *testing.T, rt http.RoundTripper, address string, scrape llmlb.Scrape) fetched {
	t.Helper()
	return getWithin(t, rt, "http", address, scrape, limit)
}

func getWithin(t *testing.T, rt http.RoundTripper, scheme, address string, scrape llmlb.Scrape, within time.Duration) fetched {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	s := &llmlb.Settings{Scrape: scrape, Upstream: func() (http.RoundTripper, string) { return rt, scheme }}
	p, why := fetch(ctx, s, address, ask{path: "/metrics", text: true}, within)
	defer p.release()
	if len(why) > maxReason || strings.ContainsAny(string(why), "<>\n") {
		t.Errorf("reason %q does not fit a table", why)
	}
	return fetched{why, string(p.body), p.own, p.answered, p.undialed, p.conclusive}
}

// What servers answer with, and what an operator reads about it.
func TestAnswers(t *testing.T) {
	rt := caddyTransport(t, nil)
	zip := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.Bytes()
	}
	bomb := zip(strings.Repeat("\n", 32<<20))
	for what, c := range map[string]struct {
		answer http.HandlerFunc
		why    reason
		body   string
		final  bool
	}{
		"plain": {answer: func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Accept"); got != "text/plain;version=0.0.4" {
				t.Errorf("asked for %q", got)
			}
			_, _ = io.WriteString(w, "x 1\n")
		}, body: "x 1\n", final: true},
		"gzip": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write(zip("x 2\n"))
		}, body: "x 2\n", final: true},
		"plain that says gzip": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, strings.Repeat("x 1\n", 10))
		}, why: "not gzip, though it says so", final: true},
		"gzip bomb": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write(bomb)
		}, why: tooLarge, final: true},
		"huge": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			chunk := bytes.Repeat([]byte("a 1\n"), 64<<10)
			for range 40 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, why: tooLarge, final: true},
		"other encoding": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "x")
		}, why: "unknown content encoding", final: true},
		"html": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<html>")
		}, why: "not a metrics page (text/html)", final: true},
		"evil type": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "a/<b>"+strings.Repeat("z", 500))
		}, why: "not a metrics page ()", final: true},
		"401": {answer: status(401), why: "401: check upstream_auth", final: true},
		"404": {answer: status(404), why: "404", final: true},
		"501": {answer: status(501), why: "501", final: true},
		"503": {answer: status(503), why: "503"},
		"429": {answer: status(429), why: "429"},
		"cut": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "x 1\n")
		}, why: "connection closed"},
		"moved twice": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/again")
			w.WriteHeader(http.StatusFound)
		}, why: "redirected twice", final: true},
	} {
		t.Run(what, func(t *testing.T) {
			_, address := engine(t, c.answer)
			got := get(t, rt, address, llmlb.Scrape{})
			if got.why != c.why || got.why == "" && got.body != c.body || got.final != c.final || !got.own || !got.answered || got.undialed {
				t.Errorf("got %+v; want reason %q, body %q, conclusive %v", got, c.why, c.body, c.final)
			}
		})
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "<html>secret details</html>")
	}
}

// A redirect is followed once and within the server; no other host is asked
// for anything, and none gets the token.
func TestRedirects(t *testing.T) {
	rt := caddyTransport(t, nil)
	_, elsewhere := engine(t, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was asked for %s with authorization %q", r.URL, r.Header.Get("Authorization"))
	})
	var location string
	_, address := engine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics/" {
			_, _ = fmt.Fprintf(w, "moved{auth=%q} 1\n", r.Header.Get("Authorization"))
			return
		}
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	for where, followed := range map[string]bool{
		"/metrics/":                       true,
		"metrics/":                        true,
		"http://" + address + "/metrics/": true,
		"http://" + elsewhere + "/":       false,
		"//" + elsewhere + "/":            false,
		"https://" + address + "/":        false,
		"":                                false,
		"::":                              false,
	} {
		location = where
		got := get(t, rt, address, llmlb.Scrape{Bearer: "k1"})
		if followed && got.body != "moved{auth=\"Bearer k1\"} 1\n" {
			t.Errorf("to %q: got %+v, want the page behind it", where, got)
		}
		if !followed && got.why != "redirect to another place" {
			t.Errorf("to %q: got %+v, want it refused", where, got)
		}
	}
}

// The token comes from where the operator keeps it, at every scrape anew.
func TestBearer(t *testing.T) {
	rt := caddyTransport(t, nil)
	_, address := engine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer k1" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, "x 1\n")
	})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("k1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LLMLB_TEST_TOKEN", "k1")
	for configured, want := range map[string]reason{
		"":                       "401: check upstream_auth",
		"wrong":                  "401: check upstream_auth",
		"k1":                     "",
		"{env.LLMLB_TEST_TOKEN}": "",
		"{file." + file + "}":    "",
		"k1\r\nX: y":             badAuth,
		"k1{x}":                  "401: check upstream_auth", // a brace that is no placeholder is the token's own
	} {
		if got := get(t, rt, address, llmlb.Scrape{Bearer: configured}); got.why != want {
			t.Errorf("with %q: %q, want %q", configured, got.why, want)
		}
	}
	if err := os.WriteFile(file, []byte("k2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := get(t, rt, address, llmlb.Scrape{Bearer: "{file." + file + "}"}); got.why != "401: check upstream_auth" {
		t.Errorf("after the file changed: %q, want the 401", got.why)
	}
}

// Metrics are found on another path, another port, or at a URL; what is learnt
// about reaching another port does not count for the endpoint, and another host
// never sees the token.
func TestMetricsElsewhere(t *testing.T) {
	rt := caddyTransport(t, nil)
	auth := func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s", r.URL.RequestURI(), r.Header.Get("Authorization"))
	}
	_, upstream := engine(t, auth)
	_, other := engine(t, auth)
	_, port, _ := net.SplitHostPort(other)
	for metrics, want := range map[string]fetched{
		"":                               {body: "/metrics Bearer k", own: true},
		"/m?x=1":                         {body: "/m?x=1 Bearer k", own: true},
		":" + port:                       {body: "/metrics Bearer k"},
		":" + port + "/m":                {body: "/m Bearer k"},
		"http://{host}:" + port + "/m":   {body: "/m Bearer k"},
		"http://" + upstream + "/m":      {body: "/m Bearer k", own: true},
		"http://localhost:" + port + "/": {body: "/ "},
	} {
		got := get(t, rt, upstream, llmlb.Scrape{Metrics: metrics, Bearer: "k"})
		if got.body != want.body || got.own != want.own {
			t.Errorf("metrics %q: got %+v, want body %q, own %v", metrics, got, want.body, want.own)
		}
	}
}

// Values of the option that name no place are refused when the configuration
// is loaded, without repeating credentials.
func TestMetricsOptionThatMakesNoSense(t *testing.T) {
	for _, v := range []string{"metrics", ":x/metrics", ":0", ":70000/m", "ftp://{host}/m", "http:///m", "http://u:hunter2@{host}/m", "http://[::1/m"} {
		err := checkScrape(&llmlb.Scrape{Metrics: v})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("metrics %q: %v", v, err)
		}
	}
	if err := checkScrape(&llmlb.Scrape{Engine: "vlm"}); err == nil || !strings.Contains(err.Error(), `"vlm"`) || !strings.HasSuffix(err.Error(), "have "+strings.Join(Engines(), ", ")) || Engines()[0] != auto || !slices.IsSorted(Engines()[2:]) {
		t.Errorf("unknown engine: %v", err)
	}
}
