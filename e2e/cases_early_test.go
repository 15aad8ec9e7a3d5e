package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

const tooLongHere = `{"error":{"message":"the prompt is too long for this server","type":"invalid_request_error","code":413}}`

// hangsUp answers as soon as it has read a request's head and closes, with the
// body unread: what is still on its way meets a closed door.
func hangsUp(_ string, _ *bufio.Reader, c net.Conn) bool {
	return refuses413(c, "Connection: close\r\n")
}

// hangsUpUnsaid does the same without a word about the connection.
func hangsUpUnsaid(_ string, _ *bufio.Reader, c net.Conn) bool { return refuses413(c, "") }

func refuses413(c net.Conn, fields string) (again bool) {
	fmt.Fprintf(c, "HTTP/1.1 413 Request Entity Too Large\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		len(tooLongHere), fields, tooLongHere)
	return false
}

// answersEarly answers like hangsUp, but then takes what still comes, so that
// nothing keeps the answer from the gateway.
func answersEarly(head string, in *bufio.Reader, c net.Conn) bool {
	hangsUp(head, in, c)
	_, _ = io.Copy(io.Discard, in)
	return false
}

// A server answers a long upload without having read it, and hangs up. The
// client gets that answer and no broken connection; the server is asked once and
// is none the worse for it.
func TestAnswerToAnUploadThatWasNotRead(t *testing.T) {
	body := ofLength(3 << 20)
	for name, format := range map[string]string{
		"llm_proxy":                         "llm_proxy %s %s {\n" + fast + "max_body 4MiB\n}\n",
		"llm_admission and lb_policy apart": "llm_admission {\npool p\nmax_body 4MiB\n}\nreverse_proxy %s %s {\nlb_policy llm {\npool p\n" + fast + "}\ntransport llm\nlb_retries 2\n}\n",
		"policy alone":                      "reverse_proxy %s %s {\nlb_policy llm {\n" + fast + "max_body 4MiB\n}\ntransport llm\nlb_retries 2\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newWire(t, hangsUp), newWire(t, hangsUpUnsaid)
			g := start(t, fmt.Sprintf(format, a.addr(), b.addr()))
			for version, client := range versions(t) {
				for framing, framed := range framings {
					for range 10 { // which of the two is heard of first is chance
						before := len(a.arrived()) + len(b.arrived())
						res, err := client.Post(g.url+"/v1/chat/completions", "application/json", framed(body))
						if err != nil {
							t.Fatalf("%s, %s: %v", version, framing, err)
						}
						if r := read(t, res); r.status != http.StatusRequestEntityTooLarge || r.body != tooLongHere || r.header.Get("Content-Type") != "application/json" {
							t.Errorf("%s, %s: status %d: %s; want the server's 413", version, framing, r.status, r.body)
						}
						if n := len(a.arrived()) + len(b.arrived()) - before; n != 1 {
							t.Errorf("%s, %s: %d requests reached the servers, want 1", version, framing, n)
						}
					}
				}
			}
			for _, e := range g.pools()[0].Endpoints {
				if e.State != "up" || e.ErrorRate != 0 {
					t.Errorf("a server is %s with an error rate of %v (%s)", e.State, e.ErrorRate, e.Reason)
				}
			}
		})
	}
}

// Whoever answers before a body has been read, the gateway or a server, what is
// left of it is never taken for requests on the client's connection.
func TestUnreadRestsAreNoRequests(t *testing.T) {
	proxy := "llm_proxy %s {\n" + fast + "max_body 65536\n}\n"
	apart := "llm_admission {\npool p\nmax_body 65536\n}\nreverse_proxy %s {\nlb_policy llm {\npool p\n" + fast + "}\n}\n"
	alone := "reverse_proxy %s {\nlb_policy llm {\n" + fast + "max_body 1KB\n}\n}\n"
	const longer, endless = "Content-Length: 3145728", "Transfer-Encoding: chunked"
	twice := `{"model":"cheap","model":"secret","messages":[]}`
	for _, tc := range []struct {
		name, site, method, path, framing, body string
		status                                  int
	}{
		{"path not served", proxy, "POST", "/flush_cache", endless, "", 404},
		{"path not served, apart", apart, "POST", "/flush_cache", endless, "", 404},
		{"path not served, with length", proxy, "POST", "/flush_cache", longer, "", 404},
		{"wrong method", proxy, "PUT", "/v1/chat/completions", endless, "", 405},
		{"wrong method, apart", apart, "DELETE", "/v1/chat/completions", endless, "", 405},
		{"wrong method, with length", proxy, "GET", "/v1/chat/completions", longer, "", 405},
		{"too long", proxy, "POST", "/v1/chat/completions", endless, "", 413},
		{"too long, apart", apart, "POST", "/v1/chat/completions", endless, "", 413},
		{"too long, with length", proxy, "POST", "/v1/chat/completions", longer, "", 413},
		{"too long, on a path without a dialect", proxy, "POST", "/tokenize", endless, "", 413},
		{"framed wrongly", proxy, "POST", "/v1/chat/completions", endless, "zz\r\n", 400},
		{"framed wrongly, apart", apart, "POST", "/v1/chat/completions", endless, "-5\r\n", 400},
		{"refused, then more", proxy, "POST", "/v1/chat/completions", endless, inChunks(twice) + "zz\r\n", 400},
		{"the server's answer, policy alone", alone, "POST", "/v1/chat/completions", endless, "", 413},
		{"the server's answer, policy alone, with length", alone, "POST", "/v1/chat/completions", longer, "", 413},
		{"the server's answer, not looked at", alone, "POST", "/v1/embeddings", endless, "", 413},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newWire(t, answersEarly)
			g := start(t, fmt.Sprintf(tc.site, a.addr()))
			c := g.dial(t)
			// Each is of 128 bytes, so that a request begins wherever a buffer of
			// the gateway's ends.
			smuggled := g.head("GET", "/v1/models?smuggled", "X: ")
			smuggled = strings.Replace(smuggled, "X: ", "X: "+strings.Repeat("x", 128-len(smuggled)), 1)
			many := strings.Repeat(smuggled, 64)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				io.WriteString(c, g.head(tc.method, tc.path, "Content-Type: application/json", tc.framing))
				body, end := tc.body, ""
				if body == "" && tc.framing == endless {
					body, end = "300000\r\n", "\r\n0\r\n\r\n" // one chunk of 3 MiB
				}
				io.WriteString(c, body)
				for range 3 << 20 / len(many) {
					if _, err := io.WriteString(c, many); err != nil {
						return
					}
				}
				io.WriteString(c, end+g.head("GET", "/v1/models?next", "Connection: close"))
			}()
			in := bufio.NewReader(c)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != tc.status {
				t.Errorf("status %d, want %d: %s", res.StatusCode, tc.status, text)
			}
			if len(text) == 0 || text[0] != '{' {
				t.Errorf("the answer is %q, want JSON", text)
			}
			// At most the request behind the body is answered, or told to be none.
			rest, err := io.ReadAll(in)
			if n := strings.Count(string(rest), "HTTP/1.1 "); n > 1 {
				t.Errorf("%d more answers came: %.300q", n, rest)
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is held open")
			}
			<-sent
			for _, head := range a.arrived() {
				if strings.Contains(head, "smuggled") {
					t.Fatalf("the server was sent %q", head)
				}
			}
		})
	}
}
