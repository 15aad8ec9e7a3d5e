package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Trailers of a server's answer reach the client, in HTTP/1.1 for one that takes
// them and in HTTP/2.
func TestTrailersArePassedOn(t *testing.T) {
	a := newBackend(t)
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		w.Header().Set("Trailer", "X-Usage")
		answer(w, r, body)
		_ = http.NewResponseController(w).Flush() // in chunks, streamed or not
		w.Header().Set("X-Usage", "5")
	})
	g := start(t, fmt.Sprintf("llm_proxy %s {\n%s}\n", a.addr(), fast))
	for version, client := range versions(t) {
		for _, stream := range []bool{false, true} {
			req, err := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(chat(stream, "", "hi")))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("TE", "trailers")
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if _, announced := res.Trailer["X-Usage"]; !announced {
				t.Errorf("%s, stream %v: the trailer is not announced: %v", version, stream, res.Header)
			}
			if r := read(t, res); r.status != http.StatusOK || stream && r.body != streamed() {
				t.Errorf("%s, stream %v: status %d: %q", version, stream, r.status, r.body)
			}
			if got := res.Trailer["X-Usage"]; len(got) != 1 || got[0] != "5" {
				t.Errorf("%s, stream %v: the trailer is %q, want 5", version, stream, got)
			}
		}
	}
}

// An error in answer to a streaming request is a whole answer with its own
// length, and not a stream.
func TestErrorsForStreamsKeepTheirLength(t *testing.T) {
	const text = `{"error":{"message":"x","code":"invalid"}}` // 42 bytes
	for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusInternalServerError} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			a := newBackend(t)
			a.answers(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Length", "42")
				w.WriteHeader(status)
				io.WriteString(w, text)
			})
			g := start(t, fmt.Sprintf("llm_proxy %s {\n%s}\n", a.addr(), fast))
			for version, client := range versions(t) {
				res, err := client.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat(true, "", "hi")))
				if err != nil {
					t.Fatal(err)
				}
				if r := read(t, res); r.status != status || r.header.Get("Content-Type") != "application/json" ||
					r.header.Get("Content-Length") != "42" || r.body != text {
					t.Errorf("%s: status %d, %s bytes of %s: %q", version, r.status, r.header.Get("Content-Length"), r.header.Get("Content-Type"), r.body)
				}
			}
		})
	}
}

// A client leaves in the middle of a chunk, and the next request goes to the
// same server at once: what was left of the first answer is in none after it.
func TestAnswersAfterOneThatWasCutAreClean(t *testing.T) {
	a := newBackend(t)
	long := strings.Repeat("an endless word ", 16<<10)
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if !strings.Contains(string(body), `"stream":true`) {
			answer(w, r, body)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		send(w, answerEvents[0])
		for r.Context().Err() == nil {
			send(w, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q}}]}`, long))
		}
	})
	g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%s}\n", a.addr(), fast, named(a)))
	want := g.post(chat(false, "", "hi")).body
	for version, client := range versions(t) {
		t.Run(version, func(t *testing.T) {
			for i := range 50 {
				res, err := client.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat(true, "", "hi")))
				if err != nil {
					t.Fatal(err)
				}
				part := make([]byte, 1000+i*100) // well within the first long event
				if _, err := io.ReadFull(res.Body, part); err != nil {
					t.Fatalf("reading the beginning of stream %d: %v", i, err)
				}
				res.Body.Close()
				res, err = client.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat(false, "", "hi")))
				if err != nil {
					t.Fatalf("after stream %d: %v", i, err)
				}
				if r := read(t, res); r.status != http.StatusOK || r.body != want {
					t.Fatalf("after stream %d: status %d: %.300q", i, r.status, r.body)
				}
			}
			eventually(t, "the cut streams to end at the server", func() bool {
				a.mu.Lock()
				defer a.mu.Unlock()
				return a.open == 0
			})
		})
	}
	if e := g.endpoint("a"); e.State != "up" || e.ErrorRate != 0 || e.Calls != 0 {
		t.Errorf("the server is %s with an error rate of %v and %d open requests", e.State, e.ErrorRate, e.Calls)
	}
}

// What a server answers to a client's own mistakes is passed on, tried nowhere
// else, and does not speak against the server, however often it happens.
func TestClientsMistakesAreNotTheServers(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusUnprocessableEntity} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			a := newBackend(t)
			text := fmt.Sprintf(`{"error":{"message":"no %d","type":"invalid_request_error"}}`, status)
			a.answers(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				io.WriteString(w, text)
			})
			g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%s}\n", a.addr(), fast, named(a)))
			for i := range 20 {
				if r := g.post(chat(i%2 == 0, "", "hi")); r.status != status || r.body != text {
					t.Fatalf("request %d: status %d: %s", i, r.status, r.body)
				}
			}
			if e := g.endpoint("a"); e.State != "up" || e.ErrorRate != 0 {
				t.Errorf("the server is %s with an error rate of %v", e.State, e.ErrorRate)
			}
			a.answers(answer)
			if r := g.post(chat(true, "", "hi")); r.status != http.StatusOK || r.body != streamed() {
				t.Errorf("the next request: status %d: %s", r.status, r.body)
			}
			if n := a.count(); n != 21 {
				t.Errorf("%d requests reached the server, want 21: each once", n)
			}
		})
	}
}
