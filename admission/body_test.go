package admission

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// chunked frames pieces as an HTTP/1 body without a length.
func chunked(pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	return b.String() + "0\r\n\r\n"
}

// sized is a valid chat body of exactly n bytes.
func sized(n int) string {
	head, tail := `{"model":"m","messages":[{"role":"user","content":"`, `"}]}`
	return head + strings.Repeat("a", n-len(head)-len(tail)) + tail
}

// Long prompts arrive whole and unchanged.
func TestLongBodiesReachTheEngineUnchanged(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}, admission: object{"max_body": 4 << 20}})
	for i, n := range []int{31_000, 129_000, 1_014_506, 2 << 20} {
		body := sized(n)
		if resp, answer := g.post(chatPath, body); resp.StatusCode != http.StatusOK {
			t.Fatalf("%d bytes: %d %s", n, resp.StatusCode, answer)
		}
		seen, got := e.requests()
		if seen[i].ContentLength != int64(n) || sha256.Sum256(got[i]) != sha256.Sum256([]byte(body)) {
			t.Errorf("of %d bytes the engine got %d, announced as %d", n, len(got[i]), seen[i].ContentLength)
		}
	}
	g.calm()
}

// A body that comes in pieces without a length becomes one that has a length:
// some engines read no other.
func TestBodyWithoutLengthGetsOne(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}})
	resp, answer := g.raw("POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Data-Parallel-Rank\r\n\r\n" +
		strings.TrimSuffix(chunked(plain[:5], plain[5:20], plain[20:]), "\r\n") + "X-Data-Parallel-Rank: 3\r\n\r\n")
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", resp.StatusCode, answer)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	two := &http.Client{Transport: &http.Transport{Protocols: &protocols}, Timeout: limit}
	defer two.CloseIdleConnections()
	resp2, err := two.Post("http://"+g.address+chatPath, "application/json", io.MultiReader(strings.NewReader(plain[:9]), strings.NewReader(plain[9:])))
	if err != nil {
		t.Fatal(err)
	}
	resp2.Body.Close()
	if resp2.StatusCode != http.StatusOK || resp2.ProtoMajor != 2 {
		t.Errorf("over HTTP/%d: %d", resp2.ProtoMajor, resp2.StatusCode)
	}
	seen, got := e.requests()
	for i := range seen {
		if seen[i].ContentLength != int64(len(plain)) || len(seen[i].TransferEncoding) > 0 || len(seen[i].Trailer) > 0 || string(got[i]) != plain {
			t.Errorf("request %d: length %d, framing %q, trailers %v, body %q", i, seen[i].ContentLength, seen[i].TransferEncoding, seen[i].Trailer, got[i])
		}
	}
}

// The limit means what it says, to the byte, with and without a length.
func TestBodyLimitIsExact(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}, admission: object{"max_body": 65_536}})
	for _, framing := range []string{"length", "chunks"} {
		for _, n := range []int{65_535, 65_536, 65_537} {
			var body io.Reader = strings.NewReader(sized(n))
			if framing == "chunks" {
				body = io.MultiReader(body)
			}
			resp, answer := g.do(http.MethodPost, chatPath, body, nil)
			if n <= 65_536 && resp.StatusCode != http.StatusOK {
				t.Errorf("%d bytes by %s: %d %s", n, framing, resp.StatusCode, answer)
			}
			if n > 65_536 {
				wantError(t, resp, answer, http.StatusRequestEntityTooLarge, "body_too_large")
			}
		}
	}
	if seen, _ := e.requests(); len(seen) != 4 {
		t.Errorf("the engine got %d requests, want the 4 within the limit", len(seen))
	}
}

// A client that asks before it sends is told at once, and is not asked for what
// nobody will take.
func TestExpectContinue(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}, admission: object{"max_body": 1000}})

	conn := g.dial()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", chatPath, len(plain))
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("waiting for the word to send: %q, %v", line, err)
	}
	_, _ = r.ReadString('\n')
	_, _ = io.WriteString(conn, plain)
	if resp, body := g.answer(r); resp.StatusCode != http.StatusOK {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	if seen, _ := e.requests(); seen[0].Header.Get("Expect") != "" {
		t.Error("the engine is asked again whether to send")
	}

	conn = g.dial()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n", chatPath)
	r = bufio.NewReader(conn)
	resp, body := g.answer(r)
	wantError(t, resp, body, http.StatusRequestEntityTooLarge, "body_too_large")
	if !resp.Close {
		t.Error("the connection stays open for a body that was not read")
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("then came %q, %v; want the end", rest, err)
	}
}

// A client that sends a byte now and then cannot hold a place for long.
func TestSlowBodyIsGivenUp(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}, admission: object{"body_timeout": "50ms"}})
	for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		resp, body := g.raw("POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + framing + "\r\n\r\n")
		wantError(t, resp, body, http.StatusRequestTimeout, "body_timeout")
		if !resp.Close {
			t.Error("the connection stays open for a body that was not read")
		}
	}
}

// The time for the body is not the time for the answer.
func TestBodyTimeoutDoesNotCutTheAnswer(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		sse(w, `{"choices":[{"delta":{"content":"a"}}]}`)
		select {
		case <-time.After(200 * time.Millisecond): // four times the body's time
		case <-r.Context().Done():
			t.Error("the engine saw the client leave")
		}
		sse(w, "[DONE]")
	})
	g := start(t, site{upstreams: []string{e.address()}, admission: object{"body_timeout": "50ms"}})
	for _, header := range []http.Header{{}, {"Content-Type": {"application/json"}}} {
		resp, body := g.do(http.MethodPost, chatPath, io.MultiReader(strings.NewReader(streamed)), header)
		if resp.StatusCode != http.StatusOK || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("got %d %q", resp.StatusCode, body)
		}
	}
}

// Whoever answers before the body was read must not leave the rest of it on the
// connection: it would be taken for requests that no rule of the site has seen.
func TestUnreadBodyIsNeverTakenForRequests(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}, admission: object{"max_body": 100_000, "body_timeout": "200ms"}})
	const line = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
	smuggled := strings.Repeat(line, 1<<20/len(line))
	head := func(method, path string) string {
		return method + " " + path + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	}
	for _, test := range []struct {
		name, request string
		status        int
	}{
		{"path not served", head("POST", "/flush_cache") + chunked(smuggled), 404},
		{"wrong method", head("GET", chatPath) + chunked(smuggled), 405},
		{"body too long", head("POST", chatPath) + chunked(smuggled), 413},
		{"body too long at once", "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n" + smuggled, 413},
		{"body too slow", head("POST", chatPath) + "100000\r\n" + line + line, 408},
		{"framing broken", head("POST", chatPath) + "zz\r\n" + smuggled, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := g.dial()
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				_, _ = io.WriteString(conn, test.request) // cut short by the gateway
			}()
			r := bufio.NewReader(conn)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("reading the answer: %v", err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if resp.StatusCode != test.status {
				t.Errorf("got %d, want %d", resp.StatusCode, test.status)
			}
			if rest, err := io.ReadAll(r); len(rest) > 0 {
				t.Errorf("%d more bytes of answers came (%v)", len(rest), err)
			}
			<-sent
		})
	}
	if seen, _ := e.requests(); len(seen) > 0 {
		t.Errorf("%d requests went through to the engine", len(seen))
	}
}

// Prompts of token ids, and all the other shapes that are legal, are none of our
// business to change.
func TestLegalPromptShapesPassUnchanged(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}})
	for i, prompt := range []string{`[1,2,3,4]`, `[[1,2],[3,4]]`, `["a","b"]`, `""`, `[]`} {
		body := `{"model":"m", "prompt":` + prompt + `}`
		if resp, answer := g.post("/v1/completions", body); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", prompt, resp.StatusCode, answer)
		}
		if _, got := e.requests(); string(got[i]) != body {
			t.Errorf("%s: the engine got %s", prompt, got[i])
		}
	}
}

// A compressed body is the engine's to read.
func TestCompressedBodyPassesUnchanged(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}})
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, plain)
	_ = z.Close()
	resp, answer := g.do(http.MethodPost, chatPath, bytes.NewReader(packed.Bytes()), http.Header{"Content-Encoding": {"gzip"}})
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", resp.StatusCode, answer)
	}
	if seen, got := e.requests(); !bytes.Equal(got[0], packed.Bytes()) || seen[0].Header.Get("Content-Encoding") != "gzip" {
		t.Error("the engine got something else")
	}
}

// Two models in one body: what we would judge is not what the engine would run.
func TestBodyThatReadsTwoWaysIsRefused(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}})
	for _, test := range []struct{ body, field string }{
		{`{"model":"cheap","model":"secret","messages":[]}`, "model"},
		{`{"mod\u0065l":"cheap","model":"secret","messages":[]}`, "model"},
		{`{"model":"m","messages":[],"priority":-9}`, "priority"},
		{`{"model":"m","messages":[],"data_parallel_rank":1}`, "data_parallel_rank"},
	} {
		resp, body := g.post(chatPath, test.body)
		message := wantError(t, resp, body, http.StatusBadRequest, "body_not_accepted")
		if !strings.Contains(message, test.field) || !strings.Contains(body, `"param":"`+test.field+`"`) {
			t.Errorf("%s: the field %s is not named in %s", test.body, test.field, body)
		}
		if resp.Close {
			t.Error("the connection is closed although the body was read")
		}
	}
	if seen, _ := e.requests(); len(seen) > 0 {
		t.Errorf("the engine got %d requests", len(seen))
	}
}

// The operator may let a steering field through; then it arrives as it was sent.
func TestAllowedFieldPasses(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}, admission: object{"allow_fields": []string{"priority"}}})
	const body = `{"model":"m","messages":[],"priority":3}`
	if resp, answer := g.post(chatPath, body); resp.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", resp.StatusCode, answer)
	}
	if _, got := e.requests(); string(got[0]) != body {
		t.Errorf("the engine got %s", got[0])
	}
}

// A client that leaves while it sends costs no engine anything.
func TestClientLeavesWhileSending(t *testing.T) {
	e := newEngine(t, nil)
	g := start(t, site{upstreams: []string{e.address()}})
	conn := g.dial()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", chatPath)
	_ = conn.Close()
	g.calm()
	entry := g.access()
	if entry["status"] != float64(statusClientGone) || entry["llm_outcome"] != llmlb.ClientGone.String() {
		t.Errorf("logged with status %v and outcome %v", entry["status"], entry["llm_outcome"])
	}
	if seen, _ := e.requests(); len(seen) > 0 {
		t.Error("the engine got a request")
	}
}
