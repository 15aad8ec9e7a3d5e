package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// pair starts two servers behind one gateway.
func pair(t *testing.T, options string) (g *gateway, a, b *backend) {
	t.Helper()
	a, b = newBackend(t), newBackend(t)
	g = start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s\n%s}\n", a.addr(), b.addr(), fast, named(a, b), options))
	return g, a, b
}

// named gives the servers the names a, b, c … in order.
func named(backends ...*backend) string {
	var s strings.Builder
	for i, b := range backends {
		fmt.Fprintf(&s, "endpoint %s {\nname %c\n}\n", b.addr(), 'a'+i)
	}
	return s.String()
}

// arrived returns the last body that reached either server.
func arrived(name string, a, b *backend) []byte {
	if name == "a" {
		return a.lastBody()
	}
	return b.lastBody()
}

// Every legal shape of a request reaches the engine byte for byte, and the same
// request goes to the same server.
func TestLegalShapesArriveUnchanged(t *testing.T) {
	g, a, b := pair(t, "")
	ids := "[" + strings.TrimSuffix(strings.Repeat("17,23,42,", 200), ",") + "]"
	for _, tc := range []struct{ name, path, body string }{
		{"content parts, tool message, null content", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"ok"}]}]}`},
		{"token ids", "/v1/completions", `{"model":"m","prompt":[1,2,3,4]}`},
		{"several token-id prompts", "/v1/completions", `{"model":"m","prompt":[[1,2],[3,4]]}`},
		{"several texts", "/v1/completions", `{"model":"m","prompt":["a","b"]}`},
		{"empty text", "/v1/completions", `{"model":"m","prompt":""}`},
		{"no prompts", "/v1/completions", `{"model":"m","prompt":[]}`},
		{"many token ids", "/v1/completions", `{"model":"m","prompt":` + ids + `}`},
		{"lone surrogate", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"\ud800"}]}`},
		{"invalid UTF-8", "/v1/chat/completions", "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\xc3\x28\"}]}"},
		{"byte order mark", "/v1/chat/completions", "\xef\xbb\xbf" + `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
		{"malformed", "/v1/chat/completions", `{"model":"m","messages":[`},
		{"not JSON", "/v1/chat/completions", `hello`},
		{"wrong types", "/v1/chat/completions", `{"model":7,"messages":"x","stream":"yes","max_tokens":[]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first := g.send(tc.path, strings.NewReader(tc.body))
			if first.status != http.StatusOK {
				t.Fatalf("status %d: %s", first.status, first.body)
			}
			if got := arrived(first.endpoint(), a, b); string(got) != tc.body {
				t.Errorf("arrived as %q", got)
			}
			if again := g.send(tc.path, strings.NewReader(tc.body)); again.endpoint() != first.endpoint() {
				t.Errorf("went to %s, then to %s", first.endpoint(), again.endpoint())
			}
		})
	}
}

// Two prompts of token ids that share their first 600 go to one server.
func TestTokenIDPromptsShareTheirPrefix(t *testing.T) {
	g, _, _ := pair(t, "")
	prefix := strings.Repeat("101,", 600)
	first := g.send("/v1/completions", strings.NewReader(`{"model":"m","prompt":[`+prefix+`1,2,3]}`))
	second := g.send("/v1/completions", strings.NewReader(`{"model":"m","prompt":[`+prefix+`9,8]}`))
	if first.endpoint() != second.endpoint() || second.decision() != "warm" {
		t.Errorf("went to %s, then to %s (%s)", first.endpoint(), second.endpoint(), second.decision())
	}
}

func TestLargeBodiesArriveWhole(t *testing.T) {
	g, a, b := pair(t, "max_body 4MiB\n")
	for _, size := range []int{31_000, 129_000, 1_014_506, 2 << 20, 4 << 20} {
		frame := len(chat(false, "", ""))
		body := chat(false, "", strings.Repeat("x", size-frame))
		r := g.post(body)
		if r.status != http.StatusOK {
			t.Fatalf("%d bytes: status %d: %s", size, r.status, r.body)
		}
		if got := arrived(r.endpoint(), a, b); !bytes.Equal(got, []byte(body)) {
			t.Errorf("%d bytes: %d arrived, or others", size, len(got))
		}
	}
	hits := a.count() + b.count()
	if r := g.post(chat(false, "", strings.Repeat("x", 4<<20))); r.status != http.StatusRequestEntityTooLarge || !strings.Contains(r.body, `"error"`) {
		t.Errorf("over max_body: status %d: %s", r.status, r.body)
	}
	if a.count()+b.count() != hits {
		t.Error("a body over max_body reached a server")
	}
}

// The classic bypass: a gateway reads the first of two keys, the engine the
// last.
func TestDuplicateModelKeysAreRefused(t *testing.T) {
	g, a, b := pair(t, "")
	for _, body := range []string{
		`{"model":"cheap","model":"secret","messages":[]}`,
		`{"mod\u0065l":"cheap","model":"secret","messages":[]}`,
		`{"Model":"cheap","model":"secret","messages":[]}`,
	} {
		if r := g.post(body); r.status != http.StatusBadRequest || !strings.Contains(r.body, `"error"`) {
			t.Errorf("%s: status %d: %s", body, r.status, r.body)
		}
	}
	if a.count()+b.count() != 0 {
		t.Error("a refused body reached a server")
	}
}

// A body without a length arrives whole, and as one well-framed request.
func TestChunkedBodiesArriveWhole(t *testing.T) {
	g, a, b := pair(t, "")
	body := chat(false, "", "in three pieces")
	pieces := []string{body[:10], body[10:25], body[25:]}

	t.Run("HTTP/1.1", func(t *testing.T) {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", strings.TrimPrefix(g.url, "http://"))
		for _, p := range pieces {
			fmt.Fprintf(c, "%x\r\n%s\r\n", len(p), p)
		}
		io.WriteString(c, "0\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := read(t, res)
		if got := arrived(r.endpoint(), a, b); r.status != 200 || string(got) != body {
			t.Errorf("status %d, arrived as %q", r.status, got)
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		client := &http.Client{Transport: &http.Transport{
			Protocols:       &protocols,
			TLSClientConfig: &tls.Config{},
		}}
		defer client.CloseIdleConnections()
		pr, pw := io.Pipe()
		go func() {
			for _, p := range pieces {
				io.WriteString(pw, p)
			}
			pw.Close()
		}()
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, g.url+"/v1/chat/completions", pr)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.ProtoMajor != 2 {
			t.Fatalf("spoke %s, want HTTP/2", res.Proto)
		}
		r := read(t, res)
		if got := arrived(r.endpoint(), a, b); r.status != 200 || string(got) != body {
			t.Errorf("status %d, arrived as %q", r.status, got)
		}
	})
	if got := a.count() + b.count(); got != 2 {
		t.Errorf("%d requests reached the servers, want 2", got)
	}
}

func TestRequestsWithoutABody(t *testing.T) {
	g, a, b := pair(t, "")
	for _, tc := range []struct{ method, path string }{
		{http.MethodGet, "/v1/models"},
		{http.MethodPost, "/v1/chat/completions"},
		{http.MethodHead, "/"},
		{http.MethodOptions, "/v1/chat/completions"},
	} {
		hits := a.count() + b.count()
		req, err := http.NewRequest(tc.method, g.url+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if r := read(t, res); r.status != http.StatusOK {
			t.Errorf("%s %s: status %d: %s", tc.method, tc.path, r.status, r.body)
		}
		if got := a.count() + b.count() - hits; got != 1 {
			t.Errorf("%s %s: %d requests reached the servers, want 1", tc.method, tc.path, got)
		}
	}
}

// Cheap requests are served while every server is at its limit of generations and
// as many requests wait as may: nothing that an engine need not compute stands in
// that line, and neither does what the site serves itself.
func TestCheapRequestsPassAFullPool(t *testing.T) {
	a := newBackend(t)
	g := start(t, "respond /static/* \"a file\"\n"+singleSite(a, 1, "queue 1\n"))
	s := stepping(t, a)
	served := []<-chan reply{g.asks(t, http.DefaultClient, "runs")}
	s.arrived()
	served = append(served, g.queues(t, http.DefaultClient, []string{"waits"})...)
	if r := g.post(distinct(1)); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, `"queue_full"`) {
		t.Errorf("a third generation: status %d: %s", r.status, r.body)
	}
	a.answers(answer)
	for _, path := range []string{"/v1/models", "/v1/models/m", "/health", "/version", "/static/x"} {
		began := time.Now()
		if r := g.get(path); r.status != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, r.status, r.body)
		}
		if took := time.Since(began); took > within {
			t.Errorf("%s: answered after %v", path, took)
		}
	}
	s.answer()
	allServed(t, served)
}
