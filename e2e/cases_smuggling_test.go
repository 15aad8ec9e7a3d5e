package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// ambiguous are requests whose framing servers read in more than one way, by
// their headers and what comes behind those, with something hidden in it.
func ambiguous(hidden string) []framing {
	length := fmt.Sprint("Content-Length: ", len(hidden))
	const chunked = "Transfer-Encoding: chunked"
	return []framing{
		{"a length and chunks", []string{"Content-Length: 5", chunked}, inChunks(hidden)},
		{"chunks and a length", []string{chunked, "Content-Length: 4"}, inChunks("", hidden)[len("0\r\n"):]},
		{"a length and chunks, both of all", []string{fmt.Sprint("Content-Length: ", len(inChunks(hidden))), chunked}, inChunks(hidden)},
		{"two lengths", []string{"Content-Length: 0", length}, hidden},
		{"two lengths the other way", []string{length, "Content-Length: 0"}, hidden},
		{"two lengths in one line", []string{fmt.Sprintf("%s, 0", length)}, hidden},
		{"a tab after chunked", []string{chunked + "\t"}, inChunks(hidden)},
		{"a tab after chunked, and a length", []string{chunked + "\t", "Content-Length: 5"}, inChunks(hidden)},
		{"a vertical tab before chunked", []string{"Transfer-Encoding: \x0bchunked", "Content-Length: 5"}, inChunks(hidden)},
		{"a space before the colon", []string{"Transfer-Encoding : chunked"}, inChunks(hidden)},
		{"a space before the colon, and a length", []string{"Transfer-Encoding : chunked", "Content-Length: 5"}, inChunks(hidden)},
		{"an encoding that is none", []string{"Transfer-Encoding: xchunked", "Content-Length: 5"}, inChunks(hidden)},
		{"two encodings", []string{chunked, "Transfer-Encoding: identity"}, inChunks(hidden)},
		{"a folded line", []string{"Transfer-Encoding:\r\n chunked", "Content-Length: 5"}, inChunks(hidden)},
		{"a length with a sign", []string{fmt.Sprint("Content-Length: +", len(hidden))}, hidden},
		{"a length in other digits", []string{fmt.Sprintf("Content-Length: 0x%x", len(hidden))}, hidden},
		{"a length below zero", []string{"Content-Length: -1"}, hidden},
		{"a bare line feed after an extension", []string{chunked}, fmt.Sprintf("%x;ext\n%s\r\n0\r\n\r\n", len(hidden), hidden)},
		{"a line feed in an extension", []string{chunked}, fmt.Sprintf("%x;a\n%x\r\n%s\r\n0\r\n\r\n", len(hidden), len(hidden), hidden)},
		{"a chunk longer than it says", []string{chunked}, "5\r\n" + hidden + "\r\n0\r\n\r\n"},
		{"a chunk size with a sign", []string{chunked}, fmt.Sprintf("+%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)},
		{"a chunk size beyond all numbers", []string{chunked}, "10000000000000005\r\n" + hidden + "\r\n0\r\n\r\n"},
		{"a length in the trailer", []string{chunked, "Trailer: Content-Length"}, fmt.Sprintf("%x\r\n%s\r\n0\r\nContent-Length: 5\r\n\r\n", len(hidden), hidden)},
	}
}

type framing struct {
	name   string
	fields []string
	body   string
}

// Requests whose framing servers read in more than one way are refused, or
// reach the inference server as one request that can be read in one way. What
// their bodies hide is never a request.
func TestNoRequestHidesInABody(t *testing.T) {
	const alone = "policy alone"
	for site, format := range map[string]string{
		"llm_proxy":                         "llm_proxy %s {\n" + fast + "}\n",
		"llm_admission and lb_policy apart": "llm_admission {\npool p\n}\nreverse_proxy %s {\nlb_policy llm {\npool p\n" + fast + "}\n}\n",
		alone:                               "reverse_proxy %s {\nlb_policy llm {\n" + fast + "}\n}\n",
	} {
		t.Run(site, func(t *testing.T) {
			a := newWire(t, wholeJSON)
			g := start(t, fmt.Sprintf(format, a.addr()))
			hidden := g.head("GET", "/admin") + g.head("GET", "/v1/models?hidden")
			for _, f := range ambiguous(hidden) {
				t.Run(f.name, func(t *testing.T) { f.try(t, g, a, site != alone) })
			}
			if r := g.post(chat(false, "", "hi")); r.status != http.StatusOK {
				t.Errorf("a plain request: status %d: %s", r.status, r.body)
			}
			if e := g.pools()[0].Endpoints[0]; e.State != "up" || e.ErrorRate != 0 {
				t.Errorf("the server is %s with an error rate of %v for what clients did", e.State, e.ErrorRate)
			}
			for _, head := range a.arrived() {
				if !strings.HasPrefix(head, "POST /v1/chat/completions") && !strings.HasPrefix(head, "GET /v1/models?next-") {
					t.Errorf("what nobody sent as a request reached the server: %q", head)
				}
			}
		})
	}
}

// tag finds the request again at the server.
func (f framing) tag() string { return url.QueryEscape(f.name) }

// try sends the request, and a plain one behind it, and checks what became of
// both.
func (f framing) try(t *testing.T, g *gateway, a *wire, admitted bool) {
	t.Helper()
	c := g.dial(t)
	io.WriteString(c, g.head("POST", "/v1/chat/completions?"+f.tag(), append(f.fields, "Content-Type: application/json")...)+f.body)
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	// What the gateway held for requests would be answered before this one.
	io.WriteString(c, g.head("GET", "/v1/models?next-"+f.tag(), "Connection: close"))
	var next []int
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			break
		}
		next = append(next, res.StatusCode)
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}

	// Requests that were broken off may arrive later than the client hears of it.
	var first, then int
	for _, head := range a.arrived() {
		lower := strings.ToLower(head)
		switch {
		case strings.Contains(lower, "hidden") || strings.Contains(lower, "/admin"):
			t.Errorf("what was hidden reached the server: %q", head)
		case strings.HasPrefix(head, "GET /v1/models?next-"+f.tag()+" "):
			then++
		case strings.HasPrefix(head, "POST /v1/chat/completions?"+f.tag()+" "):
			first++
			if n := strings.Count(lower, "\ncontent-length") + strings.Count(lower, "\ntransfer-encoding"); n != 1 {
				t.Errorf("%d headers of framing reached the server: %q", n, head)
			}
		}
	}
	switch status := res.StatusCode; {
	case status == http.StatusOK:
		if first != 1 {
			t.Errorf("%d requests reached the server, want 1", first)
		}
	case status == http.StatusBadRequest || status == http.StatusNotImplemented || !admitted && status >= http.StatusInternalServerError:
		// Alone, the policy can answer nothing, and passes on what it could read.
		if first > 1 || admitted && first > 0 || !res.Close || len(next) > 0 {
			t.Errorf("after status %d, %d requests reached the server and answers %v came; want none, and the end", status, first, next)
		}
	default:
		t.Errorf("status %d", status)
	}
	// The next one is served, or the connection was closed on it, with or without
	// a word.
	if len(next) > 1 || len(next) == 1 && next[0] != http.StatusBadRequest && (next[0] != http.StatusOK || then != 1) {
		t.Errorf("then came answers %v, and %d requests reached the server", next, then)
	}
}
