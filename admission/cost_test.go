package admission

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// metered is a gateway that counts the tokens of the tenant "a".
func metered(t *testing.T, e *engine, more object) *gateway {
	t.Helper()
	limits := []object{{"tenant": "a", "tokens_per_minute": 1e9}}
	fields := object{"tenant": "{http.request.header.X-Tenant}", "tenant_limits": limits}
	maps.Copy(fields, more)
	return start(t, site{upstreams: []string{e.address()}, admission: fields})
}

// tally waits until so many requests of the tenant are counted.
func (g *gateway) tally(n uint64) (a llmlb.TenantTally) {
	g.t.Helper()
	for until := time.Now().Add(limit); a.Requests < n; time.Sleep(time.Millisecond) {
		g.pool.Tenants(func(name string, t llmlb.TenantTally) {
			if name == "a" {
				a = t
			}
		})
		if time.Now().After(until) {
			g.t.Fatalf("%d requests are counted, want %d", a.Requests, n)
		}
	}
	return a
}

// Where no usage is told a tenant pays for what was expected or came: an answer
// without usage is no free one. Errors have no tokens in them.
func TestAnswersWithoutUsageAreCounted(t *testing.T) {
	long := strings.Repeat("word ", 4000) // 20,000 bytes
	for _, test := range []struct {
		name, path, body string
		status           int
		kind, answer     string
		least, most      uint64
	}{
		{"TGI without details", "/generate", `{"inputs":"hi","parameters":{"max_new_tokens":9000}}`, 200, "application/json", `{"generated_text":"` + long + `"}`, 5000, 5100},
		{"a short one", chatPath, `{"max_tokens":40,` + plain[1:], 200, "application/json", `{"choices":[]}`, 20, 20},
		{"pictures", "/v1/images/generations", `{"prompt":"a"}`, 200, "application/json", `{"data":[{"b64_json":"` + long + `"}]}`, 256, 256},
		{"sound", "/v1/audio/transcriptions", `{"file":"x","stream":true}`, 200, "text/event-stream", "data: {}\n\n", 256, 256},
		{"an embedding", "/v1/embeddings", `{"input":"hi"}`, 200, "application/json", `{"data":[{"embedding":[` + strings.Repeat("1,", 9000) + `1]}]}`, 0, 0},
		{"the client's mistake", chatPath, plain, 400, "application/json", `{"error":"` + long + `"}`, 0, 0},
		{"a stream", chatPath, streamed, 200, "text/event-stream", strings.Repeat(`data: {"choices":[{"delta":{"content":"x"}}]}`+"\n\n", 7) + "data: [DONE]\n\n", 7, 7},
		{"a stream with nothing in it", chatPath, streamed, 200, "text/event-stream", `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n", 0, 0},
		{"usage", chatPath, plain, 200, "application/json", `{"choices":[{"message":{"content":"` + long + `"}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`, 3, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := metered(t, newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.answer)
			}), nil)
			resp, body := g.do(http.MethodPost, test.path, strings.NewReader(test.body), http.Header{"X-Tenant": {"a"}})
			if resp.StatusCode != test.status {
				t.Fatalf("got %d %s", resp.StatusCode, body)
			}
			if n := g.tally(1).OutputTokens; n < test.least || n > test.most {
				t.Errorf("%d tokens are counted as generated, want %d to %d", n, test.least, test.most)
			}
		})
	}
}

// A client that hangs up before the usage has had what it read, and one that
// leaves at once has had a server work for it.
func TestHangingUpBeforeTheUsageIsNotFree(t *testing.T) {
	part := strings.Repeat("word ", 10_000) // 50,000 bytes
	for _, test := range []struct {
		name, body, kind, part string
		read                   int // bytes
		least, most            uint64
	}{
		{"in the middle", plain, "application/json", `{"choices":[{"index":0,"message":{"role":"assistant","content":"` + part, 50_000, 12_500, 12_600},
		{"before the first byte", plain, "", "", 0, 256, 256},
		{"a stream, before its first token", streamed, "", "", 0, 0, 0},
		{"a stream that tells how far it is at first", streamed, "text/event-stream", `data: {"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}` + "\n\n" + strings.Repeat(`data: {"choices":[{"delta":{"content":"x"}}]}`+"\n\n", 29), 1400, 20, 30},
	} {
		t.Run(test.name, func(t *testing.T) {
			came := make(chan struct{})
			g := metered(t, newEngine(t, func(w http.ResponseWriter, r *http.Request) {
				if test.part != "" {
					w.Header().Set("Content-Type", test.kind)
					_, _ = io.WriteString(w, test.part)
					_ = http.NewResponseController(w).Flush()
				}
				close(came)
				<-r.Context().Done()
			}), nil)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.address+chatPath, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Tenant", "a")
			if test.read == 0 {
				go func() { <-came; hangUp() }()
			}
			if resp, err := client(t).Do(req); err == nil {
				_, _ = io.CopyN(io.Discard, resp.Body, int64(test.read))
				hangUp()
				_ = resp.Body.Close()
			}
			got := g.tally(1)
			if n := got.OutputTokens; n < test.least || n > test.most || got.PromptTokens == 0 {
				t.Errorf("%d and %d tokens are counted, want a prompt and %d to %d", got.PromptTokens, n, test.least, test.most)
			}
		})
	}
}

// A server that has too much to do has computed nothing, so that a tenant whose
// requests are refused by servers keeps its tokens. One that another server has
// then answered pays, though the first could not be reached.
func TestWhatServersRefuseIsNotCounted(t *testing.T) {
	for _, test := range []struct {
		name  string
		first llmlb.Outcome
		then  llmlb.Outcome // Served for an answer
		used  bool
	}{
		{"too much to do everywhere", llmlb.Overloaded, llmlb.Overloaded, false},
		{"nobody there", llmlb.Unreachable, llmlb.Unreachable, false},
		{"either", llmlb.Overloaded, llmlb.Unreachable, false},
		{"too much to do at one", llmlb.Overloaded, llmlb.Served, true},
		{"one is gone", llmlb.Unreachable, llmlb.Served, true},
		{"one breaks down", llmlb.EngineError, llmlb.Overloaded, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t, &Handler{Queue: wait(0)}, "a", "b")
			s.attempt = func(a *played) *ending {
				o := test.first
				if a.n > 1 {
					o = test.then
				}
				switch o {
				case llmlb.Served:
					ok(a)
					return nil
				case llmlb.Overloaded:
					return busy(time.Hour)
				case llmlb.Unreachable:
					a.call.ExcludeUnsent(a.endpoint)
				}
				return &ending{outcome: o}
			}
			var call *llmlb.Call
			s.before = func(_ http.ResponseWriter, r *http.Request) { call = llmlb.CallOf(r.Context()) }
			_, _, _ = s.post(t.Context(), plain)
			x := &exchange{handler: s.handler, call: call, rec: &recorder{}}
			if prompt, _ := x.used(); prompt > 0 != test.used || (x.cost() > 0) != test.used {
				t.Errorf("%d prompt tokens are counted, at %v; used: %v", prompt, x.cost(), test.used)
			}
		})
	}
}

// What the server had in its cache was not computed, also where its usage does
// not say so: what was taken to be there is then, in proportion.
func TestACachedPromptCostsNothing(t *testing.T) {
	for _, test := range []struct {
		name           string
		prompt, cached int
		cost           float64
	}{
		{"no usage", llmlb.Unknown, llmlb.Unknown, 100},
		{"usage without what was cached", 20_000, llmlb.Unknown, 200},
		{"all of it", 20_000, 19_500, 500},
	} {
		c := &llmlb.Call{Features: llmlb.Features{InputTokens: 10_000, Encodes: true}, PromptTokens: test.prompt, CachedTokens: test.cached, Attempts: 1}
		pool := llmlb.NewPool("test")
		pool.Lock()
		e := pool.Sight("10.0.0.1:8000", time.Now())
		c.Lease, c.Pool = pool.Reserve(e, time.Now(), llmlb.Work{Uncached: 100}), pool
		pool.Unlock()
		c.Decision.Matched = 9_900
		c.EndAttempt(time.Now(), llmlb.ClientGone)
		x := &exchange{call: c, rec: &recorder{}}
		if got := x.cost(); got != test.cost {
			t.Errorf("%s: it costs %v, want %v", test.name, got, test.cost)
		}
	}
}

// A tenant that may have one request open sends one after the other. The next one
// comes as soon as the answer has, and is not refused for the one before.
func TestOneAfterTheOtherIsNeverTwo(t *testing.T) {
	g := start(t, site{upstreams: []string{newEngine(t, nil).address()}, admission: object{
		"tenant": "{http.request.header.X-Tenant}", "tenant_limits": []object{{"concurrent": 1}},
	}})
	for i := range 300 {
		if resp, body := g.post(chatPath, plain); resp.StatusCode != http.StatusOK {
			t.Fatalf("request %d: status %d: %s", i, resp.StatusCode, body)
		}
	}
}
