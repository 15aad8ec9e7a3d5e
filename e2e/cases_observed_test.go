package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The names of the two histograms.
const (
	ttftMetric      = "caddy_llmlb_ttft_seconds"
	firstByteMetric = "caddy_llmlb_first_byte_seconds"
)

// The time to first token is the time to the first thing that was generated: not
// to a comment, and not to a chunk that only tells the role. Those count as the
// first byte, which is another metric.
func TestTheFirstTokenIsMeasured(t *testing.T) {
	const (
		role  = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
		end   = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		usage = `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11}}`
		late  = 600 * time.Millisecond
	)
	for _, tc := range []struct{ name, options, token string }{
		{"content", patient, delta("one")},
		{"tool call", patient, `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}`},
		{"reasoning", patient, `{"choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}]}`},
		{"reasoning, newer", patient, `{"choices":[{"index":0,"delta":{"reasoning":"hm"},"finish_reason":null}]}`},
		{"content without the gate", "first_token off\n", delta("one")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newBackend(t)
			g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%s}\n", a.addr(), fast, tc.options))
			before := make(chan time.Duration, 1) // from the request's arrival to just before the token
			pinged, next := make(chan struct{}), make(chan struct{})
			a.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) {
				began := time.Now()
				w.Header().Set("Content-Type", eventStream)
				io.WriteString(w, ": ping\n\n")
				_ = http.NewResponseController(w).Flush()
				close(pinged)
				if !waits(r, next) {
					return
				}
				send(w, role)
				time.Sleep(time.Until(began.Add(late))) // the engine's time
				before <- time.Since(began)
				send(w, tc.token)
				send(w, end)
				send(w, usage)
				send(w, "[DONE]")
			})
			sent, done := time.Now(), make(chan error, 1)
			go func() {
				_, err := g.fetch(http.DefaultClient, chatPath, chat(true, "", "hi"))
				done <- err
			}()
			arrives(t, "the request to reach the server", pinged)
			var firstByte float64
			eventually(t, "the first byte to be measured", func() bool {
				n, sum := g.histogram(firstByteMetric)
				firstByte = sum
				return n == 1 && sum > 0 // the sum is written a moment later
			})
			if atMost := time.Since(sent).Seconds(); firstByte > atMost {
				t.Errorf("the first byte came after %vs by the metric, want at most %vs", firstByte, atMost)
			}
			if n, _ := g.histogram(ttftMetric); n != 0 {
				t.Errorf("a comment counts as a token")
			}
			close(next)
			if err := arrives(t, "the answer's end", done); err != nil {
				t.Error(err)
			}
			atMost, atLeast := time.Since(sent).Seconds(), (<-before).Seconds()
			g.ended(map[string]int{"served": 1})
			n, ttft := g.histogram(ttftMetric)
			if n != 1 || ttft < atLeast || ttft > atMost {
				t.Errorf("%d samples of %vs, want 1 from %vs to %vs", n, ttft, atLeast, atMost)
			}
			if n, sum := g.histogram(firstByteMetric); n != 1 || sum != firstByte || sum >= ttft {
				t.Errorf("the first byte: %d samples of %vs, want the one of %vs", n, sum, firstByte)
			}
		})
	}
}

// A stream that ends before it has shown a token leaves no sample, and is counted
// for what it was, whoever ended it.
func TestNoTokenNoSample(t *testing.T) {
	beginning := append([]string{": ping\n\n"}, events(answerEvents[0])...)
	for _, tc := range []struct {
		name, options string
		leaves        bool
		end           func(http.ResponseWriter, *http.Request)
		outcome       string
	}{
		{"the client leaves", patient, true, falls, "client_gone"},
		{"the client leaves, without the gate", "first_token off\n", true, falls, "client_gone"},
		{"the server ends it", "", false, nil, "engine_error"},
		{"the server ends it, without the gate", "first_token off\n", false, nil, "truncated"},
		{"the server falls silent", "first_token 300ms 300ms\n", false, falls, "first_token_timeout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newBackend(t)
			g := start(t, fmt.Sprintf("llm_proxy %s {\n%sretries 0\n%s}\n", a.addr(), fast, tc.options))
			a.answers(plays(eventStream, beginning, tc.end))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chat(true, "", "hi")))
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if res, err := http.DefaultClient.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}()
			if tc.leaves {
				eventually(t, "the first byte to come", func() bool {
					n, _ := g.histogram(firstByteMetric)
					return n == 1
				})
				leave()
			}
			arrives(t, "the client's end", done)
			g.ended(map[string]int{tc.outcome: 1})
			if n, sum := g.histogram(ttftMetric); n != 0 {
				t.Errorf("%d samples, %vs", n, sum)
			}
		})
	}
}

// A client that leaves is in the access log as one: 499 if it had nothing yet, and
// the status that it had, with a word about who broke off, within the answer. A
// server that breaks off is told from it.
func TestWhoBrokeOffIsInTheLog(t *testing.T) {
	for _, protocol := range protocols {
		for _, tc := range []struct {
			name    string
			part    part
			leaves  bool
			status  float64
			aborted any
			outcome string
		}{
			{"before the headers", func(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() }, true, 499, nil, "client_gone"},
			{"within the stream", plays(eventStream, events(answerEvents[:3]...), falls), true, 200, "client", "client_gone"},
			{"the server within the stream", plays(eventStream, events(answerEvents[:3]...), nil), false, 200, "upstream", "truncated"},
			{"nobody", answer, false, 200, nil, "served"},
		} {
			t.Run(protocol+"/"+tc.name, func(t *testing.T) {
				a, log := newBackend(t), newJournal(t)
				a.answers(tc.part)
				g := secure(t, log.directive()+fmt.Sprintf("llm_proxy %s {\n%s%s}\n", a.addr(), fast, patient))
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chat(true, "", "hi")))
				if err != nil {
					t.Fatal(err)
				}
				client, began := g.over(t, protocol), make(chan struct{})
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					res, err := client.Do(req)
					if err != nil {
						return
					}
					defer res.Body.Close()
					one := make([]byte, 1)
					_, _ = res.Body.Read(one)
					close(began)
					_, _ = io.Copy(io.Discard, res.Body)
				}()
				sent := time.Now()
				if tc.leaves {
					a.await("the request", func() bool { return a.hits == 1 })
					if tc.status == 200 {
						arrives(t, "the stream to begin", began)
					}
					leave()
				}
				arrives(t, "the client's end", ended)
				entry := log.entries(t, 1)[0]
				if entry["status"] != tc.status || entry["llm_aborted"] != tc.aborted || entry["llm_outcome"] != tc.outcome {
					t.Errorf("status %v, llm_aborted %v, llm_outcome %v; want %v, %v, %v",
						entry["status"], entry["llm_aborted"], entry["llm_outcome"], tc.status, tc.aborted, tc.outcome)
				}
				if d, ok := entry["llm_duration"].(float64); !ok || d <= 0 || d > time.Since(sent).Seconds()+1 {
					t.Errorf("llm_duration is %v", entry["llm_duration"])
				}
				g.ended(map[string]int{tc.outcome: 1})
			})
		}
	}
}
