package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Whatever an answer that is written piece by piece is made of, each piece is with
// the client before the server writes the next, over each protocol of the client's
// and of the server's.
func TestEveryPieceArrivesAtOnce(t *testing.T) {
	sse := func(n int) string {
		return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%d\"}}]}\n\n", n)
	}
	for _, tc := range []struct {
		name, path, body, kind, encoding string
		length                           bool
		pieces                           []string
	}{
		{"events", "/v1/chat/completions", chat(true, "", "hi"), "text/event-stream; charset=utf-8", "", false, []string{sse(1), sse(2), sse(3), "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", "data: [DONE]\n\n"}},
		{"events with a length", "/v1/chat/completions", chat(true, "", "hi"), "text/event-stream", "", true, []string{sse(1), sse(2), sse(3), "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", "data: [DONE]\n\n"}},
		{"events of odd type", "/v1/chat/completions", chat(true, "", "hi"), "Text/Event-Stream;charset", "", false, []string{sse(1), sse(2), "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", "data: [DONE]\n\n"}},
		{"events of plain type", "/v1/chat/completions", chat(true, "", "hi"), "text/plain", "", false, []string{sse(1), sse(2), "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", "data: [DONE]\n\n"}},
		{"events of no type", "/v1/chat/completions", chat(true, "", "hi"), "", "", false, []string{sse(1), sse(2), "data: [DONE]\n\n"}},
		{"compressed events", "/v1/chat/completions", chat(true, "", "hi"), "text/event-stream", "gzip", false, []string{"\x1f\x8babc", "defg", "hijk"}},
		{"lines", "/api/chat", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "application/x-ndjson", "", false, []string{
			`{"model":"m","message":{"role":"assistant","content":"a"},"done":false}` + "\n", `{"model":"m","message":{"role":"assistant","content":"b"},"done":false}` + "\n", `{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}` + "\n",
		}},
		{"lines with a length", "/api/generate", `{"model":"m","prompt":"hi"}`, "application/x-ndjson", "", true, []string{
			`{"model":"m","response":"a","done":false}` + "\n", `{"model":"m","response":"b","done":false}` + "\n", `{"model":"m","response":"","done":true,"done_reason":"stop"}` + "\n",
		}},
		{"sound", "/v1/audio/speech", `{"model":"m","input":"hi","voice":"v"}`, "audio/mpeg", "", false, []string{"\xff\xfb1", "\xff\xfb2", "\xff\xfb3"}},
		{"sound with a length", "/v1/audio/speech", `{"model":"m","input":"hi","voice":"v"}`, "audio/wav", "", true, []string{"RIFF", "2222", "3333"}},
		{"bytes", "/v1/audio/speech", `{"model":"m","input":"hi","voice":"v","stream_format":"audio"}`, "application/octet-stream", "", false, []string{"1", "2", "3"}},
		{"whole, in pieces", "/v1/chat/completions", chat(false, "", "hi"), "application/json", "", false, []string{`{"choices":[{"index":0,"message":{"role":"assistant","content":"one`, ` two`, ` three"},"finish_reason":"stop"}]}`}},
		{"of an unknown type", "/v1/embeddings", `{"model":"m","input":"hi"}`, "application/x-unknown", "", false, []string{"one", "two", "three"}},
	} {
		for _, scheme := range []string{"", "h2c://"} {
			for _, options := range []string{"", "usage inject\n"} {
				next := make(chan struct{})
				l := listen(t)
				var p http.Protocols
				p.SetHTTP1(true)
				p.SetUnencryptedHTTP2(true)
				srv := &http.Server{Protocols: &p, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodPost {
						http.NotFound(w, r)
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					h := w.Header()
					h["Content-Type"] = nil
					if tc.kind != "" {
						h.Set("Content-Type", tc.kind)
					}
					if tc.encoding != "" {
						h.Set("Content-Encoding", tc.encoding)
					}
					if tc.length {
						h.Set("Content-Length", strconv.Itoa(len(strings.Join(tc.pieces, ""))))
					}
					for _, piece := range tc.pieces {
						_, _ = io.WriteString(w, piece)
						_ = http.NewResponseController(w).Flush()
						select {
						case <-next:
						case <-r.Context().Done():
							return
						}
					}
				})}
				go func() { _ = srv.Serve(l) }()
				g := secure(t, fmt.Sprintf("encode gzip zstd\nllm_proxy %s%s {\nengine none\npaths + /v1/audio/*\n%s}\n", scheme, l.Addr(), options))
				for _, protocol := range protocols {
					t.Run(tc.name+"/"+scheme+"/"+strings.TrimSpace(options)+"/"+protocol, func(t *testing.T) {
						req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+tc.path, strings.NewReader(tc.body))
						if err != nil {
							t.Fatal(err)
						}
						req.Header.Set("Content-Type", "application/json")
						req.Header.Set("Accept-Encoding", "identity")
						client := g.over(t, protocol)
						stuck := time.AfterFunc(10*time.Second, func() {
							t.Error("a piece does not come: is it held back?")
							for range tc.pieces {
								select {
								case next <- struct{}{}:
								case <-time.After(time.Second):
								}
							}
						})
						defer stuck.Stop()
						res, err := client.Do(req)
						if err != nil {
							t.Fatal(err)
						}
						defer res.Body.Close()
						for _, piece := range tc.pieces {
							got := make([]byte, len(piece))
							if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != piece {
								t.Fatalf("read %q, %v; want %q", got, err, piece)
							}
							if !stuck.Stop() {
								return
							}
							stuck.Reset(4 * time.Second)
							next <- struct{}{}
						}
						// Some have no end of their own, and are broken off.
						if rest, _ := io.ReadAll(res.Body); len(rest) > 0 {
							t.Errorf("after the end: %q", rest)
						}
					})
				}
				srv.Close()
			}
		}
	}
}
