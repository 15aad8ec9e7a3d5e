package admission

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The client has headers and signs of life long before the engine says anything,
// in every version of HTTP and behind a site's encode, and then the engine's
// events as they are.
func TestHeartbeatThroughHTTP(t *testing.T) {
	encode := object{"handler": "encode", "encodings": object{"gzip": object{}}, "prefer": []string{"gzip"}}
	const events = "data: " + textChunk + "\n\ndata: " + stopChunk + "\n\ndata: [DONE]\n\n"
	for _, test := range []struct {
		name   string
		before []object
		proto  string
		accept string
	}{
		{"1.1", nil, "h1", ""},
		{"1.0", nil, "h1.0", ""},
		{"2", nil, "h2c", ""},
		{"1.1 with encode", []object{encode}, "h1", "gzip"},
		{"2 with encode", []object{encode}, "h2c", "gzip"},
	} {
		t.Run(test.name, func(t *testing.T) {
			token := make(chan struct{})
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-token:
				case <-r.Context().Done():
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, events)
			})
			g := start(t, site{upstreams: []string{e.address()}, before: test.before, admission: object{"heartbeat": "50ms"}})
			var resp *http.Response
			if test.proto == "h1.0" {
				conn := g.dial()
				fmt.Fprintf(conn, "POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(streamed), streamed)
				var err error
				if resp, err = http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
					t.Fatal(err)
				}
			} else {
				resp = g.open(t.Context(), test.proto, test.accept)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != eventStream || resp.Header.Get("Content-Encoding") != test.accept {
				t.Fatalf("got %d with %v", resp.StatusCode, resp.Header)
			}
			body := io.Reader(resp.Body)
			if test.accept == "gzip" {
				z, err := gzip.NewReader(body)
				if err != nil {
					t.Fatal(err)
				}
				body = z
			}
			r := bufio.NewReader(body)
			for range 3 {
				if line, err := r.ReadString('\n'); err != nil || line != beat+"\n" {
					t.Fatalf("got %q, %v; want a comment", line, err)
				}
				_, _ = r.ReadString('\n')
			}
			close(token)
			rest, err := io.ReadAll(r)
			got := strings.ReplaceAll(string(rest), beat+"\n\n", "")
			if err != nil || got != events || strings.LastIndex(string(rest), beat) > strings.Index(string(rest), "data:") {
				t.Errorf("the stream went on as %q, %v", rest, err)
			}
			g.calm()
			entry := g.access()
			if entry["status"] != 200.0 || entry["llm_status"] != nil || entry["llm_aborted"] != nil || entry["llm_outcome"] != "served" {
				t.Errorf("logged as %v", entry)
			}
		})
	}
}

// open begins a streaming request.
func (g *gateway) open(ctx context.Context, proto, accept string) *http.Response {
	g.t.Helper()
	tr := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(proto == "h1")
	tr.Protocols.SetUnencryptedHTTP2(proto == "h2c")
	g.t.Cleanup(tr.CloseIdleConnections)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.address+chatPath, strings.NewReader(streamed))
	if err != nil {
		g.t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept-Encoding", accept)
	}
	resp, err := (&http.Client{Transport: tr, Timeout: limit}).Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp
}

// An error that comes after the first beat is an event to the client, a clean end
// of the stream, and the real status in the log.
func TestErrorAfterHeartbeatThroughHTTP(t *testing.T) {
	for _, proto := range []string{"h1", "h2c"} {
		t.Run(proto, func(t *testing.T) {
			beating := make(chan struct{})
			e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
				<-beating
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error":{"message":"context too long","type":"BadRequestError","code":400}}`)
			})
			g := start(t, site{upstreams: []string{e.address()}, admission: object{"heartbeat": "50ms"}})
			resp := g.open(t.Context(), proto, "")
			defer resp.Body.Close()
			close(beating)
			b, err := io.ReadAll(resp.Body)
			got := strings.ReplaceAll(string(b), beat+"\n\n", "")
			const want = `data: {"error":{"message":"context too long","type":"BadRequestError","param":null,"code":400}}` + "\n\ndata: [DONE]\n\n"
			if err != nil || got != want {
				t.Errorf("got %q, %v", got, err)
			}
			g.calm()
			if entry := g.access(); entry["status"] != 200.0 || entry["llm_status"] != 400.0 || entry["llm_aborted"] != nil {
				t.Errorf("logged as %v %v %v", entry["status"], entry["llm_status"], entry["llm_aborted"])
			}
		})
	}
}

// The log tells of an answer that broke off who did it, and of a client that left
// before anything was said to it that it left.
func TestLogTellsWhoBrokeOff(t *testing.T) {
	for _, test := range []struct {
		name      string
		admission object
		before    func(g *gateway)
		engine    http.HandlerFunc
		read      bool // the client reads to the end, else it leaves after the first line
		leave     bool // the client leaves before it has anything
		want      [3]any
	}{
		{
			name:   "client before headers",
			engine: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			leave:  true, want: [3]any{499.0, nil, "client_gone"},
		},
		{
			name:   "client while waiting",
			before: func(g *gateway) { g.pool.Endpoints()[0].NoteOverload(time.Now(), 20*time.Second) },
			leave:  true, want: [3]any{499.0, nil, "client_gone"},
		},
		{
			name: "client in the stream",
			engine: func(w http.ResponseWriter, r *http.Request) {
				sse(w, textChunk)
				<-r.Context().Done()
			},
			want: [3]any{200.0, "client", "client_gone"},
		},
		{
			name: "client between beats", admission: object{"heartbeat": "50ms"},
			engine: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			want:   [3]any{200.0, "client", "client_gone"},
		},
		{
			name: "engine in the stream",
			engine: func(w http.ResponseWriter, _ *http.Request) {
				sse(w, textChunk)
				panic(http.ErrAbortHandler)
			},
			read: true, want: [3]any{200.0, "upstream", "truncated"},
		},
	} {
		for _, proto := range []string{"h1", "h2c"} {
			t.Run(test.name+" "+proto, func(t *testing.T) {
				arrived := make(chan struct{}, 1)
				e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
					arrived <- struct{}{}
					test.engine(w, r)
				})
				g := start(t, site{upstreams: []string{e.address()}, admission: test.admission})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch {
				case test.leave:
					if test.before != nil {
						test.before(g)
						go func() {
							g.waits(1)
							arrived <- struct{}{}
						}()
					}
					g.leave(ctx, proto, arrived, cancel)
				default:
					resp := g.open(ctx, proto, "")
					defer resp.Body.Close()
					if !test.read {
						_, _ = bufio.NewReader(resp.Body).ReadString('\n')
						cancel()
					} else if _, err := io.ReadAll(resp.Body); err == nil {
						t.Error("the client takes the answer for a whole one")
					}
				}
				g.calm()
				entry := g.access()
				if got := [3]any{entry["status"], entry["llm_aborted"], entry["llm_outcome"]}; got != test.want {
					t.Errorf("logged as %v, want %v", got, test.want)
				}
				for _, e := range g.pool.Endpoints() {
					for _, o := range llmlb.Outcomes() {
						if e.Ended(o) > 0 && o.String() != test.want[2] {
							t.Errorf("the endpoint has an attempt that ended as %v", o)
						}
					}
				}
			})
		}
	}
}

// leave sends a request and leaves when the gateway has it.
func (g *gateway) leave(ctx context.Context, proto string, arrived chan struct{}, cancel context.CancelFunc) {
	g.t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(proto == "h1")
	tr.Protocols.SetUnencryptedHTTP2(proto == "h2c")
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.address+chatPath, strings.NewReader(streamed))
	if err != nil {
		g.t.Fatal(err)
	}
	go func() {
		<-arrived
		cancel()
	}()
	if resp, err := (&http.Client{Transport: tr}).Do(req); err == nil {
		resp.Body.Close()
		g.t.Errorf("the request was answered %d", resp.StatusCode)
	}
}

// waits returns when so many calls wait.
func (g *gateway) waits(n int64) {
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		g.t.Error(err)
		return
	}
	for _, handler := range app.(*caddyhttp.App).Servers["main"].Routes[0].Handlers {
		h, ok := handler.(*Handler)
		for until := time.Now().Add(limit); ok && waiting(h) != n; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				g.t.Errorf("%d calls wait, want %d", waiting(h), n)
				return
			}
		}
	}
}

func waiting(h *Handler) int64 { return int64(turnsOf(h.handle.Pool()).queue.Len()) }

// A pool that is overloaded for a moment costs a client no more than the moment.
func TestShortOverloadThroughHTTP(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}})
	const pause = 300 * time.Millisecond
	begun := time.Now()
	g.pool.Endpoints()[0].NoteOverload(begun, pause)
	resp, body := g.post(chatPath, plain)
	if took := time.Since(begun); resp.StatusCode != http.StatusOK || took < pause {
		t.Errorf("got %d %s after %v", resp.StatusCode, body, took)
	}
	g.calm()
	if entry := g.access(); entry["llm_attempts"] != 1.0 {
		t.Errorf("logged with %v attempts", entry["llm_attempts"])
	}
}
