package e2e

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Where the answer is not held until it shows a token, or a heartbeat keeps the
// client company until then, the headers of a stream reach the client before its
// first event does, with compression on either side or none.
func TestStreamHeadersArriveAtOnce(t *testing.T) {
	for _, options := range []string{"first_token off", "heartbeat 200ms"} {
		for _, encode := range []string{"", "encode gzip zstd\n"} {
			for _, accept := range []string{"", "gzip"} {
				t.Run(options+"/"+strings.TrimSpace(encode)+"/"+accept, func(t *testing.T) {
					a := newBackend(t)
					first := make(chan struct{})
					a.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) {
						w.Header().Set("Content-Type", "text/event-stream")
						_ = http.NewResponseController(w).Flush()
						select {
						case <-first:
						case <-r.Context().Done():
							return
						}
						for _, e := range answerEvents {
							send(w, e)
						}
					})
					g := start(t, encode+fmt.Sprintf("llm_proxy %s {\n%s%s\n}\n", a.addr(), fast, options))
					req, err := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(chat(true, "", "hi")))
					if err != nil {
						t.Fatal(err)
					}
					// Named, so that the client library does not unfold by itself.
					req.Header.Set("Accept-Encoding", "identity")
					if accept != "" {
						req.Header.Set("Accept-Encoding", accept)
					}
					// Do returns with the headers. The first event is sent only
					// after that, so headers that wait for it never come.
					res, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					close(first)
					folded := res.Header.Get("Content-Encoding") == "gzip"
					if want := encode != "" && accept != ""; folded != want {
						t.Errorf("compressed: %v, want %v", folded, want)
					}
					if folded {
						res.Body = unfolding(t, res.Body)
					}
					r := read(t, res)
					if got := withoutComments(r.body); got != streamed() {
						t.Errorf("the stream was changed: %q", r.body)
					}
					if beats := r.body != streamed(); beats != strings.HasPrefix(options, "heartbeat") {
						t.Errorf("comments: %v with %s: %q", beats, options, r.body)
					}
				})
			}
		}
	}
}

// unfolding reads a compressed body.
func unfolding(t *testing.T, body io.ReadCloser) io.ReadCloser {
	t.Helper()
	unfolded, err := gzip.NewReader(body)
	if err != nil {
		t.Fatal(err)
	}
	return struct {
		io.Reader
		io.Closer
	}{unfolded, body}
}

// withoutComments takes away the comments that a stream begins with.
func withoutComments(stream string) string {
	for strings.HasPrefix(stream, ":") {
		_, rest, found := strings.Cut(stream, "\n\n")
		if !found {
			return stream
		}
		stream = rest
	}
	return stream
}

// Every event reaches the client before the server has sent the next one. What
// comes before the first token comes with it, or by itself where nothing is held.
func TestEveryTokenIsPassedOnAtOnce(t *testing.T) {
	for _, tc := range []struct {
		options string
		held    int // events without a token
	}{{"", 1}, {"first_token off\n", 0}} {
		t.Run(strings.TrimSpace(tc.options), func(t *testing.T) {
			a := newBackend(t)
			next := make(chan struct{})
			a.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i, e := range answerEvents {
					send(w, e)
					if i < tc.held {
						continue
					}
					select {
					case <-next:
					case <-r.Context().Done():
						return
					}
				}
			})
			g := start(t, fmt.Sprintf("llm_proxy %s {\n%s}\n", a.addr(), tc.options))
			res, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat(true, "", "hi")))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			for i, e := range answerEvents {
				want := "data: " + e + "\n\n"
				got := make([]byte, len(want))
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
					t.Fatalf("read %q, %v; want %q", got, err, want)
				}
				if i >= tc.held {
					next <- struct{}{}
				}
			}
			if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
				t.Errorf("after the end: %q, %v", rest, err)
			}
			for _, h := range []string{"X-LLM-Endpoint", "X-LLM-Decision"} {
				if res.Header.Get(h) == "" {
					t.Errorf("no header %s", h)
				}
				if strings.Contains(res.Header.Get(h), "127.0.0.1") {
					t.Errorf("%s tells the address: %q", h, res.Header.Get(h))
				}
			}
		})
	}
}
