package health

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// schemeless is a transport that does not say how it speaks to a port.
type schemeless struct{ http.RoundTripper }

// Where the upstream is reached over TLS its token never goes out in clear text,
// wherever on its host the page is.
func TestTokenIsAsSafeAsWithRequests(t *testing.T) {
	secure := &reverseproxy.HTTPTransport{TLS: &reverseproxy.TLSConfig{ExceptPorts: []string{"9100", "8000"}}}
	for _, c := range []struct {
		address, metrics, scheme string
		transport                any
		trusted, weaker          bool
	}{
		{"gpu-1:443", "", "https", schemeless{}, true, false},
		{"gpu-1:443", ":9100/metrics", "https", schemeless{}, true, false},
		{"gpu-1:443", "https://{host}:9100/metrics", "https", schemeless{}, true, false},
		{"gpu-1:443", "http://{host}:9100/metrics", "https", schemeless{}, false, true},
		{"gpu-1:443", "http://gpu-1:443/metrics", "https", schemeless{}, false, true},
		{"gpu-1:8000", "http://{host}:9100/metrics", "http", schemeless{}, true, false},
		{"gpu-1:8000", "https://{host}:9100/metrics", "http", schemeless{}, true, false},
		{"gpu-1:443", "https://other:9100/metrics", "https", schemeless{}, false, false},

		{"gpu-1:443", ":9100/metrics", "https", secure, false, true}, // of except_ports
		{"gpu-1:443", ":9443/metrics", "https", secure, true, false},
		{"gpu-1:8000", ":9100/metrics", "https", secure, true, false}, // requests go without TLS too
		{"gpu-1:8000", "http://{host}:9100/metrics", "https", secure, true, false},
		{"gpu-1:443", "http://{host}:9100/metrics", "https", secure, false, true},
	} {
		src, err := parseSource(c.metrics)
		if err != nil {
			t.Fatal(err)
		}
		got, err := locate(c.address, src, "/metrics", c.scheme, c.transport)
		if err != nil {
			t.Fatal(err)
		}
		if got.trusted != c.trusted || got.weaker != c.weaker {
			t.Errorf("%s with metrics %q at %s: trusted %v, weaker %v", c.address, c.metrics, &got.url, got.trusted, got.weaker)
		}
	}
}

// A page or a check that wants the token which is kept back says why it has none.
func TestTokenKeptBackIsSaid(t *testing.T) {
	_, address := engine(t, func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("Authorization"); key != "" {
			t.Errorf("the token went out as %q", key)
		}
		w.WriteHeader(http.StatusForbidden)
	})
	host, port, _ := net.SplitHostPort(address)
	rt := schemeless{caddyTransport(t, nil)}
	const want reason = "403: upstream_auth is not sent over plain http"
	at := "http://{host}:" + port + "/x"
	upstream := net.JoinHostPort(host, "443")
	if got := getWithin(t, rt, "https", upstream, llmlb.Scrape{Metrics: at, Bearer: "k"}, limit); got.why != want {
		t.Errorf("scrape: %q, want %q", got.why, want)
	}
	s := &llmlb.Settings{Scrape: llmlb.Scrape{Bearer: "k"}, Upstream: func() (http.RoundTripper, string) { return rt, "https" }}
	options := llmlb.Readiness{Path: at}.Settled()
	result, _, _ := askReady(t.Context(), s, upstream, &query{at: at, accept: "*/*"}, 0, &options)
	if result.Verdict != llmlb.CheckFailed || result.Reason != string(want) {
		t.Errorf("check: %v for %q, want %q", result.Verdict, result.Reason, want)
	}
}

// A host that is not the upstream's does not get the token by a redirect either.
func TestNoTokenBehindARedirect(t *testing.T) {
	_, other := engine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/m" {
			http.Redirect(w, r, "/m/", http.StatusTemporaryRedirect)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %q", r.URL.Path, r.Header.Get("Authorization"))
	})
	_, port, _ := net.SplitHostPort(other)
	rt := caddyTransport(t, nil)
	s := &llmlb.Settings{Scrape: llmlb.Scrape{Bearer: "k"}, Upstream: func() (http.RoundTripper, string) { return rt, "http" }}
	var c contact
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	res, why := c.send(ctx, s, "127.0.0.1:8000", &query{at: "http://localhost:" + port + "/m", accept: "*/*"}, limit)
	if why != "" {
		t.Fatal(why)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != `/m/ ""` {
		t.Errorf("got %s, want no token", body)
	}
}
