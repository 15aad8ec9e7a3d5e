package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// provisioned returns the module as Caddy would load it.
func provisioned(t *testing.T, config string) *Transport {
	t.Helper()
	ctx, err := caddy.ProvisionContext(&caddy.Config{
		Admin:      &caddy.AdminConfig{Disabled: true},
		StorageRaw: json.RawMessage(`{"module":"file_system","root":"` + t.TempDir() + `"}`),
	})
	if err != nil {
		t.Fatalf("making a context: %v", err)
	}
	mod, err := ctx.LoadModuleByID("http.reverse_proxy.transport.llm", []byte(config))
	if err != nil {
		t.Fatalf("loading the transport: %v", err)
	}
	tr := mod.(*Transport)
	t.Cleanup(func() { _ = tr.Cleanup() })
	return tr
}

// world is a pool with one endpoint, and a transport to it.
type world struct {
	t        *testing.T
	tr       *Transport
	pool     *llmlb.Pool
	settings *llmlb.Settings
	endpoint *llmlb.Endpoint
}

func newWorld(t *testing.T, tr *Transport, address string) *world {
	t.Helper()
	w := &world{t: t, tr: tr, pool: llmlb.NewPool("test")}
	w.settings = &llmlb.Settings{Members: []llmlb.Member{{Address: address, Name: "gpu-1"}}}
	if err := w.pool.Bind(w.settings); err != nil {
		t.Fatal(err)
	}
	w.endpoint = w.settings.Members[0].Endpoint
	return w
}

const chatBody = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`

// call returns a Call whose Lease is for the endpoint.
func (w *world) call() *llmlb.Call {
	c := llmlb.NewCall(w.pool, w.settings, time.Now())
	c.API, c.Stream, c.InputTokens, c.Body, c.Attempts = "chat", true, 10, []byte(chatBody), 1
	c.Decision = llmlb.Decision{Reason: llmlb.ReasonWarm, Matched: 7}
	w.pool.Lock()
	c.Lease = w.pool.Reserve(w.endpoint, time.Now(), llmlb.Work{Uncached: 10, Output: 10})
	w.pool.Unlock()
	return c
}

// request is one as reverse_proxy would hand it over.
func (w *world) request(ctx context.Context, c *llmlb.Call) *http.Request {
	w.t.Helper()
	address := w.endpoint.Address()
	ctx = context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewReplacer())
	ctx = context.WithValue(ctx, caddyhttp.VarsCtxKey, map[string]any{})
	ctx = context.WithValue(ctx, caddy.CtxKey("reverse_proxy.dial_info"), reverseproxy.DialInfo{
		Upstream: &reverseproxy.Upstream{Dial: address}, Network: "tcp", Address: address,
	})
	req, err := http.NewRequestWithContext(llmlb.WithCall(ctx, c), http.MethodPost, "http://"+address+"/v1/chat/completions", bytes.NewReader(c.Body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip")
	return req
}

// do sends one request and reads the whole answer.
func (w *world) do(c *llmlb.Call) (*http.Response, string, error) {
	resp, err := w.tr.RoundTrip(w.request(w.t.Context(), c))
	if err != nil {
		return nil, "", err
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return resp, string(b), err
}

// calm checks that every reservation is back.
func (w *world) calm() {
	w.t.Helper()
	w.pool.Lock()
	defer w.pool.Unlock()
	prefill, decode := w.endpoint.Ledger().OwnCalls()
	tokens, output := w.endpoint.Ledger().TokensInFlight()
	if prefill != 0 || decode != 0 || tokens != 0 || output != 0 {
		w.t.Errorf("%d+%d calls and %d+%d tokens are still reserved", prefill, decode, tokens, output)
	}
}

// response is an HTTP/1.1 response with a body of known length.
func response(body string) string {
	var b strings.Builder
	resp := &http.Response{
		StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
	_ = resp.Write(&b)
	return b.String()
}
