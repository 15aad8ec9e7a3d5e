package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// The headers of a stream reach the client before its first event does, with
// compression on either side or none.
func TestStreamHeadersArriveAtOnce(t *testing.T) {
	for _, encode := range []string{"", "encode gzip zstd\n"} {
		for _, accept := range []string{"", "gzip"} {
			t.Run(strings.TrimSpace(encode)+"/"+accept, func(t *testing.T) {
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
				g := start(t, encode+fmt.Sprintf("llm_proxy %s\n", a.addr()))
				req, err := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(chat(true, "", "hi")))
				if err != nil {
					t.Fatal(err)
				}
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
				if r := read(t, res); accept == "" && r.body != streamed() {
					t.Errorf("the stream was changed: %q", r.body)
				}
			})
		}
	}
}

// Every event reaches the client before the server has sent the next one.
func TestEveryTokenIsPassedOnAtOnce(t *testing.T) {
	a := newBackend(t)
	next := make(chan struct{})
	a.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range answerEvents {
			send(w, e)
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	g := start(t, fmt.Sprintf("llm_proxy %s\n", a.addr()))
	res, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat(true, "", "hi")))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for _, e := range answerEvents {
		want := "data: " + e + "\n\n"
		got := make([]byte, len(want))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
			t.Fatalf("read %q, %v; want %q", got, err, want)
		}
		next <- struct{}{}
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
}
