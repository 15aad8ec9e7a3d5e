package contract

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// This is what makes a transport the seat of one attempt: whatever went wrong
// before the first token can be called a dial error, and then even a POST whose
// body was sent once goes through Select again.
func TestDialErrorFromTransportIsAlwaysRetried(t *testing.T) {
	body := strings.Repeat("prompt ", 30_000)
	var sent recorder[string]
	url := load(t, []object{proxyTo(t, hooks{
		choose: func(pool reverseproxy.UpstreamPool, r *http.Request, _ http.ResponseWriter) *reverseproxy.Upstream {
			r.Body = io.NopCloser(strings.NewReader(body))
			return pool[0]
		},
		roundTrip: func(r *http.Request) (*http.Response, error) {
			got, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			if sent.add(string(got)) == 1 {
				return nil, reverseproxy.NewDialError(fmt.Errorf("no token in time: %v", context.Canceled))
			}
			return response(r, http.StatusOK, "second"), nil
		},
	}, object{"retries": 1}, "127.0.0.1:1")})

	if got := post(t, url, body); got.status != http.StatusOK || got.body != "second" {
		t.Errorf("got %d %q, want the second attempt's answer", got.status, got.body)
	}
	for i, got := range sent.list() {
		if got != body {
			t.Errorf("attempt %d sent %d bytes, want all %d", i+1, len(got), len(body))
		}
	}
}

// An engine may have begun to generate, so Caddy leaves other errors alone.
func TestOtherErrorOfPostIsNotRetried(t *testing.T) {
	var attempts recorder[struct{}]
	url := load(t, []object{proxyTo(t, hooks{
		choose: first,
		roundTrip: func(*http.Request) (*http.Response, error) {
			attempts.add(struct{}{})
			return nil, io.ErrUnexpectedEOF
		},
	}, object{"retries": 2}, "127.0.0.1:1")})

	if got := post(t, url, "x").status; got != http.StatusBadGateway {
		t.Errorf("got %d, want 502", got)
	}
	if n := len(attempts.list()); n != 1 {
		t.Errorf("the request was sent %d times, want once", n)
	}
}

// A client that still waits would be told that it left: an error of ours must
// never wrap context.Canceled. A DialError may, because it cannot be unwrapped.
func TestErrorWrappingContextCanceledIsAnswered499(t *testing.T) {
	var attempts recorder[struct{}]
	url := load(t, []object{proxyTo(t, hooks{
		choose: first,
		roundTrip: func(*http.Request) (*http.Response, error) {
			attempts.add(struct{}{})
			return nil, fmt.Errorf("giving up the attempt: %w", context.Canceled)
		},
	}, object{"retries": 2}, "127.0.0.1:1")})

	if got := post(t, url, "x").status; got != 499 {
		t.Errorf("got %d, want 499", got)
	}
	if n := len(attempts.list()); n != 1 {
		t.Errorf("the request was sent %d times, want once", n)
	}
}

// The body belongs to a policy that reads it: it has to put a fresh reader in
// place at every Select, not once.
func TestBodyReadInSelectMustBeReplacedEveryTime(t *testing.T) {
	for _, test := range []struct {
		name    string
		rearm   func(selects int) bool
		status  int
		attempt string // what the second attempt sent
	}{
		{"every time", func(int) bool { return true }, http.StatusOK, "hello"},
		{"only once", func(n int) bool { return n == 1 }, http.StatusOK, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var kept []byte
			selects := 0
			var sent recorder[string]
			url := load(t, []object{proxyTo(t, hooks{
				choose: func(pool reverseproxy.UpstreamPool, r *http.Request, _ http.ResponseWriter) *reverseproxy.Upstream {
					selects++
					if kept == nil {
						kept, _ = io.ReadAll(r.Body)
					}
					if test.rearm(selects) {
						r.Body = io.NopCloser(strings.NewReader(string(kept)))
					}
					return pool[0]
				},
				roundTrip: func(r *http.Request) (*http.Response, error) {
					got, _ := io.ReadAll(r.Body)
					if sent.add(string(got)) == 1 {
						return refuse(r)
					}
					return response(r, http.StatusOK, ""), nil
				},
			}, object{"retries": 1}, "127.0.0.1:1")})

			if got := post(t, url, "hello").status; got != test.status {
				t.Errorf("got %d, want %d", got, test.status)
			}
			if seen := sent.list(); len(seen) != 2 || seen[0] != "hello" || seen[1] != test.attempt {
				t.Errorf("the attempts sent %q, want [hello %q]", seen, test.attempt)
			}
		})
	}
}

// Scrapes and checks go through the handler's own transport, outside the proxy
// loop, and dial what DialInfo says. It is a value of the context under a key of
// the exported type caddy.CtxKey; a request var of the same name does nothing.
func TestHealthProbeStyleDialInfoInContext(t *testing.T) {
	server := backend(t, echo)
	var proxied *reverseproxy.Handler
	url := load(t, []object{proxyTo(t, hooks{
		choose: first,
		provision: func(ctx caddy.Context) error {
			proxied = parent(ctx)
			return nil
		},
	}, nil, server.URL)})
	post(t, url, "") // the proxy itself works

	const nobody = "http://127.0.0.1:1/metrics"
	info := reverseproxy.DialInfo{Network: "tcp", Address: server.Listener.Addr().String()}
	probe := func(ctx context.Context) error {
		ctx = context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewReplacer())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, nobody, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := proxied.Transport.RoundTrip(req)
		if err != nil {
			return err
		}
		return res.Body.Close()
	}

	// The var goes first: the transport pools connections by the URL's host, and
	// would find the one that the other probe made.
	vars := context.WithValue(t.Context(), caddyhttp.VarsCtxKey, map[string]any{"reverse_proxy.dial_info": info})
	if err := probe(vars); err == nil {
		t.Error("a request var named like the key is honoured now")
	}
	if err := probe(context.WithValue(t.Context(), caddy.CtxKey("reverse_proxy.dial_info"), info)); err != nil {
		t.Errorf("probing with DialInfo in the context: %v", err)
	}
}

// wrapped is how a transport of ours takes all options of the stock one.
type wrapped struct{ *reverseproxy.HTTPTransport }

// Embedding the stock transport keeps what Caddy asks of it by interface, so
// TLS toward upstreams needs no code of ours.
func TestHTTPTransportEmbeddingKeepsTLSAndSchemeMethods(t *testing.T) {
	var rt http.RoundTripper = wrapped{new(reverseproxy.HTTPTransport)}
	if _, ok := rt.(reverseproxy.TLSTransport); !ok {
		t.Error("TLSTransport is lost")
	}
	if _, ok := rt.(reverseproxy.H2CTransport); !ok {
		t.Error("H2CTransport is lost")
	}
	if _, ok := rt.(reverseproxy.ProxyProtocolTransport); !ok {
		t.Error("ProxyProtocolTransport is lost")
	}
	if _, ok := rt.(reverseproxy.HealthCheckSchemeOverriderTransport); !ok {
		t.Error("HealthCheckSchemeOverriderTransport is lost")
	}
	if _, ok := rt.(reverseproxy.RequestHeaderOpsTransport); !ok {
		t.Error("RequestHeaderOpsTransport is lost")
	}
	if _, ok := rt.(caddy.CleanerUpper); !ok {
		t.Error("CleanerUpper is lost")
	}

	server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	var scheme string
	var outer wrapped
	url := load(t, []object{proxyTo(t, hooks{
		choose: first,
		provision: func(ctx caddy.Context) error {
			if outer.HTTPTransport != nil {
				return nil // the policy and the transport share these hooks
			}
			outer = wrapped{&reverseproxy.HTTPTransport{TLS: &reverseproxy.TLSConfig{InsecureSkipVerify: true}}}
			return outer.Provision(ctx)
		},
		roundTrip: func(r *http.Request) (*http.Response, error) {
			res, err := outer.RoundTrip(r)
			scheme = r.URL.Scheme
			return res, err
		},
	}, nil, strings.TrimPrefix(server.URL, "https://"))})

	if got := post(t, url, "secret"); got.status != http.StatusOK || got.body != "secret" || scheme != "https" {
		t.Errorf("got %d %q over %q, want the TLS upstream's answer over https", got.status, got.body, scheme)
	}
}

// A block that was taken apart and put together again is read by the stock
// transport only if its brace claims the line of the word before it; otherwise
// every option is dropped without a word.
func TestTransportBlockNeedsItsBraceOnTheHeadLine(t *testing.T) {
	parse := func(braceLine int) *reverseproxy.HTTPTransport {
		tokens := []caddyfile.Token{
			{Text: "http", Line: 7},
			{Text: "{", Line: braceLine},
			{Text: "read_buffer", Line: 8},
			{Text: "8KiB", Line: 8},
			{Text: "}", Line: 9},
		}
		var parsed reverseproxy.HTTPTransport
		if err := parsed.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens)); err != nil {
			t.Fatalf("parsing the block: %v", err)
		}
		return &parsed
	}
	if got := parse(7).ReadBufferSize; got != 8<<10 {
		t.Errorf("with the brace on the head line read_buffer is %d, want 8192", got)
	}
	if got := parse(8).ReadBufferSize; got != 0 {
		t.Errorf("with the brace on its own line read_buffer is %d: it is no longer dropped", got)
	}
}

// response is an upstream's whole answer.
func response(r *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode:    status,
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Content-Type": []string{"text/plain"}},
		Body:          io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}
}

// parent is the reverse_proxy handler that a policy or transport belongs to.
func parent(ctx caddy.Context) *reverseproxy.Handler {
	for _, m := range ctx.Modules() {
		if h, ok := m.(*reverseproxy.Handler); ok {
			return h
		}
	}
	return nil
}
