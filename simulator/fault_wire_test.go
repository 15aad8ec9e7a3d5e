package simulator

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	streamed = `{"prompt":"x","max_tokens":10,"stream":true}`
	inOne    = `{"prompt":"x","max_tokens":10}`
)

// wire is a connection that a test speaks HTTP/1.1 on by itself, to see what
// comes and how it ends.
type wire struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, url string) *wire {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &wire{t, c, bufio.NewReader(c)}
}

// request sends a request that asks for a fault.
func (c *wire) request(fault, body string) {
	c.t.Helper()
	_, err := fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: sim\r\nX-Simulator-Fault: %s\r\nContent-Length: %d\r\n\r\n%s", fault, len(body), body)
	if err != nil {
		c.t.Fatal(err)
	}
}

// rest reads to the end and says which it was: eof, reset, or silent when
// nothing came any more. Where silence is expected, enough says when all has
// come that will, so that the test need not wait long to be sure.
func (c *wire) rest(enough func(got string) bool) (got, end string) {
	c.t.Helper()
	var all []byte
	for {
		patience := 10 * time.Second
		if enough != nil && enough(string(all)) {
			patience = 200 * time.Millisecond
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		part := make([]byte, 4096)
		n, err := c.r.Read(part)
		all = append(all, part[:n]...)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return string(all), "eof"
		case errors.Is(err, syscall.ECONNRESET):
			return string(all), "reset"
		case errors.Is(err, os.ErrDeadlineExceeded):
			return string(all), "silent"
		default:
			c.t.Fatal(err)
		}
	}
}

// nothingMore is for rest, where nothing is to come.
func nothingMore(string) bool { return true }

const lastChunk = "0\r\n\r\n"

// What comes over the connection, fault by fault: how the answer begins, how
// many tokens it has, what stands in it and how it ends.
func TestFaultsOnTheWire(t *testing.T) {
	url := start(t, `"name": "sim", "speed": 50`)
	for _, tc := range []struct {
		fault, body string
		begins      string // empty: not a byte comes
		tokens      int
		has, lacks  string
		ends        string // eof, reset, silent; or whole: the answer is complete and the connection lasts
	}{
		{"reset", streamed, "", 0, "", "", "reset"},
		{"reset", inOne, "", 0, "", "", "reset"},
		{"silence", streamed, "", 0, "", "", "silent"},
		{"silence", inOne, "", 0, "", "", "silent"},
		{"headers_silence", streamed, "200 OK", 0, "text/event-stream", "data:", "silent"},
		{"headers_silence", inOne, "200 OK", 0, "application/json", "{", "silent"},
		{"status 503", streamed, "503 Service Unavailable", 0, `"code":503`, "Retry-After", "whole"},
		{"status 429 retry_after 7", inOne, "429 Too Many Requests", 0, "Retry-After: 7\r\n", "", "whole"},
		{"status 529 retry_after soon please", streamed, "529", 0, "Retry-After: soon please\r\n", "", "whole"},
		{"loading", streamed, "503", 0, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, "", "whole"},
		{"error_first", streamed, "200 OK", 0, `"code":503}}` + "\n\n", "choices", "whole"},
		{"error_first 429 Slow down", streamed, "200 OK", 0, `"message":"Slow down"`, "choices", "whole"},
		{"error_first", inOne, "503", 0, `"code":503`, "choices", "whole"},
		{"error_after 3", streamed, "200 OK", 3, `data: {"error":{"message":"Internal Server Error","type":"InternalServerError","param":null,"code":500}}` + "\n\n", "finish_reason\":\"", "whole"},
		{"error_after 3", inOne, "500", 0, `"type":"InternalServerError"`, "choices", "whole"},
		{"cut_after 3", streamed, "200 OK", 3, "", lastChunk, "reset"},
		{"cut_after 0", streamed, "200 OK", 0, "text/event-stream", lastChunk, "reset"},
		{"cut_after 99", streamed, "200 OK", 10, "", `"length"`, "reset"},
		{"cut_after 3", inOne, "200 OK", 0, "Content-Length: ", "finish_reason", "reset"},
		{"stall_after 3", streamed, "200 OK", 3, "", lastChunk, "silent"},
		{"stall_after 3", inOne, "200 OK", 0, "Content-Length: ", "finish_reason", "silent"},
		{"malformed_after 3", streamed, "200 OK", 9, "[DONE]", "", "whole"},
		{"malformed_after 3", inOne, "200 OK", 0, `"text":"`, "finish_reason", "whole"},
		{"no_done", streamed, "200 OK", 10, `"finish_reason":"length"`, "[DONE]", "whole"},
		{"no_end", streamed, "200 OK", 10, "", `"length"`, "whole"},
		{"no_end", inOne, "200 OK", 0, `"finish_reason":null`, "", "whole"},
		{"close_after_reply", streamed, "200 OK", 10, "[DONE]", "Connection: close", "eof"},
		{"close_after_reply", inOne, "200 OK", 0, `"finish_reason":"length"`, "Connection: close", "eof"},
		{"trickle 1ms", streamed, "200 OK", 10, "[DONE]", "", "whole"},
		{"trickle 1ms", inOne, "200 OK", 0, `"finish_reason":"length"`, "", "whole"},
		{"slow_first_token 20ms", streamed, "200 OK", 10, "[DONE]", "", "whole"},
		{"slow_first_token 20ms", inOne, "200 OK", 0, `"finish_reason":"length"`, "", "whole"},
	} {
		kind := "stream"
		if tc.body == inOne {
			kind = "in one"
		}
		t.Run(tc.fault+" "+kind, func(t *testing.T) {
			c := dial(t, url)
			c.request(tc.fault, tc.body)
			if tc.ends == "whole" {
				checkWhole(t, c, tc.begins, tc.tokens, tc.has, tc.lacks)
				return
			}
			var enough func(string) bool
			if tc.ends == "silent" {
				enough = func(got string) bool {
					return strings.Contains(got, tc.begins) && strings.Contains(got, tc.has) && tokensIn(got) == tc.tokens
				}
			}
			got, end := c.rest(enough)
			if end != tc.ends {
				t.Errorf("it ended with %s, want %s", end, tc.ends)
			}
			if tc.begins == "" {
				if got != "" {
					t.Errorf("%q came", got)
				}
				return
			}
			if !strings.HasPrefix(got, "HTTP/1.1 "+tc.begins) {
				t.Errorf("it began with %.30q", got)
			}
			checkText(t, got, tc.tokens, tc.has, tc.lacks)
			if complete := strings.HasSuffix(got, lastChunk); tc.body == streamed && complete != (tc.ends == "eof") {
				t.Errorf("the last chunk came: %v, in %q", complete, got)
			}
		})
	}
}

// checkWhole reads a complete answer, and a second one on the same connection.
func checkWhole(t *testing.T, c *wire, begins string, tokens int, has, lacks string) {
	t.Helper()
	var copied bytes.Buffer
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(c.r, &copied)), nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasPrefix(resp.Status, begins) {
		t.Errorf("status %q, %v", resp.Status, err)
	}
	head, _, _ := strings.Cut(copied.String(), "\r\n\r\n")
	checkText(t, head+"\r\n\r\n"+string(data), tokens, has, lacks)
	for _, word := range []string{"ault", "simulated"} {
		if strings.Contains(copied.String(), word) {
			t.Errorf("the answer tells of the fault: %q", copied.String())
		}
	}
	c.r = bufio.NewReader(c.Conn)
	c.request("no_done", inOne)
	if resp, err = http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the connection did not last: %v", err)
	}
}

// tokensIn counts the whole events that have a token.
func tokensIn(got string) int { return strings.Count(got, `"finish_reason":null}]}`+"\n") }

func checkText(t *testing.T, got string, tokens int, has, lacks string) {
	t.Helper()
	if n := tokensIn(got); n != tokens {
		t.Errorf("%d tokens came, want %d, in %q", n, tokens, got)
	}
	if !strings.Contains(got, has) {
		t.Errorf("%q is not in %q", has, got)
	}
	if lacks != "" && strings.Contains(got, lacks) {
		t.Errorf("%q is in %q", lacks, got)
	}
}

// A server that refuses closes the connection without an answer, and waits for
// no body.
func TestRefuse(t *testing.T) {
	c := dial(t, start(t, `"faults": ["refuse"]`))
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: sim\r\nContent-Length: 100\r\n\r\n")
	if got, end := c.rest(nil); got != "" || end == "silent" {
		t.Errorf("%q came, and then %s", got, end)
	}
}

// The pause is in front of the first token and not of the headers; the other
// tokens follow as usual.
func TestSlowFirstToken(t *testing.T) {
	url := start(t, `"speed": 50, "faults": ["slow_first_token 300ms"]`)
	began := time.Now()
	resp := send(t, t.Context(), url+"/v1/completions", streamed)
	if chunks := readStream(t, resp.Body); chunks[0].at.Sub(began) < 300*time.Millisecond {
		t.Errorf("first token after %v", chunks[0].at.Sub(began))
	}
	c := dial(t, url)
	c.request("slow_first_token 1h", streamed)
	got, end := c.rest(func(got string) bool { return strings.HasSuffix(got, "\r\n\r\n") })
	if !strings.HasPrefix(got, "HTTP/1.1 200") || strings.Contains(got, "data:") || end != "silent" {
		t.Errorf("%q before the first token, and then %s", got, end)
	}
}

// A malformed event is not JSON, takes one token's place, and the stream goes on.
func TestMalformedEvent(t *testing.T) {
	c := dial(t, start(t, `"speed": 50`))
	c.request("malformed_after 3", streamed)
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	events := strings.Split(strings.TrimSpace(string(data)), "\n\n")
	for i, e := range events[:len(events)-1] {
		broken := !strings.HasSuffix(e, "}")
		if broken != (i == 3) {
			t.Errorf("event %d is %s", i, e)
		}
	}
	if len(events) != 10+2 {
		t.Errorf("%d events", len(events))
	}
}

// A connection that is to be closed under the next request stays open until
// then, as one does whose end and the request cross on their way.
func TestCloseUnderTheNextRequest(t *testing.T) {
	c := dial(t, start(t, `"speed": 50`))
	c.request("close_after_reply reused", inOne)
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil || resp.Close {
		t.Fatalf("the answer: close %v, %v", resp.Close, err)
	}
	if got, end := c.rest(nothingMore); got != "" || end != "silent" {
		t.Fatalf("%q and then %s before the next request", got, end)
	}
	c.request("no_done", inOne)
	if got, end := c.rest(nil); got != "" || end == "silent" {
		t.Errorf("%q and then %s under the next request", got, end)
	}
}

// The reset reaches the client also where Caddy has wrapped the connection: for
// an access log, and for TLS. On HTTP/2 it resets the request's stream only.
func TestResetThroughWrappers(t *testing.T) {
	for _, tc := range []struct{ name, server string }{
		{"plain", `"protocols": ["h1", "h2", "h2c"]`},
		{"without h2", `"protocols": ["h1"]`},
		{"access log", `"protocols": ["h1"], "logs": {}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			address := freeAddress(t)
			if err := loadServer(t, address, tc.server, `"speed": 50`); err != nil {
				t.Fatal(err)
			}
			c := dial(t, address)
			c.request("cut_after 2", streamed)
			if got, end := c.rest(nil); end != "reset" {
				t.Errorf("%s after %q", end, got)
			}
		})
	}
	address := freeAddress(t)
	if err := loadServer(t, address, `"protocols": ["h1", "h2c"]`, `"speed": 50`); err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	defer client.CloseIdleConnections()
	for _, f := range []string{"refuse", "reset", "cut_after 2", "close_after_reply"} {
		req, _ := http.NewRequest(http.MethodPost, "http://"+address+"/v1/completions", strings.NewReader(streamed))
		req.Header.Set(faultHeader, f)
		resp, err := client.Do(req)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.ProtoMajor != 2 {
				t.Errorf("%s came over %s", f, resp.Proto)
			}
		}
		if broke := err != nil && strings.Contains(err.Error(), "stream error"); broke != (f != "close_after_reply") {
			t.Errorf("%s over HTTP/2: %v", f, err)
		}
	}
}

// Below TLS the connection is found as well: a reset, and no goodbye of TLS.
func TestBottomOfTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	type wrapper struct{ net.Conn }
	if got := bottom(&wrapper{tls.Client(wrapper{c}, new(tls.Config))}); got != c {
		t.Errorf("found a %T", got)
	}
}

// Metrics, models and health answer while requests break, unless the whole
// process does; a server that loads is not healthy.
func TestWhatStaysHealthy(t *testing.T) {
	for _, tc := range []struct {
		faults string
		well   map[string]bool
	}{
		{`"silence"`, map[string]bool{"/metrics": true, "/v1/models": true, "/health": true}},
		{`"loading"`, map[string]bool{"/metrics": true, "/v1/models": true, "/health": false, "/ping": false}},
		{`{"fault": "loading", "everything": true}`, map[string]bool{"/metrics": false, "/v1/models": false, "/health": false}},
		{`{"fault": "refuse", "everything": true}`, map[string]bool{"/metrics": false, "/v1/models": false, "/health": false, "/nothing": false}},
		{`{"fault": "silence", "everything": true}`, map[string]bool{"/metrics": false, "/health": false}},
	} {
		url := start(t, `"faults": [`+tc.faults+`]`)
		for path, well := range tc.well {
			c := dial(t, url)
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: sim\r\nConnection: close\r\n\r\n", path)
			enough := nothingMore
			if well {
				enough = nil
			}
			got, _ := c.rest(enough)
			if strings.HasPrefix(got, "HTTP/1.1 200") != well {
				t.Errorf("%s: %s answers %.40q", tc.faults, path, got)
			}
		}
	}
}

// A fault that is misspelt in the header is told, and nothing else happens.
func TestHeaderErrors(t *testing.T) {
	c := dial(t, start(t, `"speed": 50`))
	c.request("cut_after", inOne)
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(data), "write cut_after") ||
		resp.ContentLength != int64(len(data)) || strconv.Itoa(len(data)) != resp.Header.Get("Content-Length") {
		t.Errorf("%d %s", resp.StatusCode, data)
	}
}
