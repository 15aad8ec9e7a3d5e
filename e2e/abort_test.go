package e2e

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Two hundred clients leave at random moments: while sending, before the
// headers, within the stream. Every reservation goes back.
func TestAbortedClientsLeaveNothingBehind(t *testing.T) {
	g, a, b := pair(t, "")
	slow := func(w http.ResponseWriter, r *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range answerEvents {
			select {
			case <-time.After(time.Duration(rand.IntN(4)) * time.Millisecond):
			case <-r.Context().Done():
				return
			}
			send(w, e)
		}
	}
	a.answers(slow)
	b.answers(slow)
	var wg sync.WaitGroup
	limit := make(chan struct{}, 16)
	for i := range 200 {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(20_000))*time.Microsecond)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(chat(i%4 > 0, "", prose("abort", 2000))))
			if err != nil {
				t.Error(err)
				return
			}
			if res, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
	wg.Wait()
	eventually(t, "every reservation to go back", func() bool {
		for _, e := range g.pools()[0].Endpoints {
			if e.Calls+e.PrefillTokens+e.OutputTokens != 0 {
				return false
			}
		}
		return true
	})
	a.answers(answer)
	b.answers(answer)
	if r := g.post(chat(true, "", "hi")); r.body != streamed() {
		t.Errorf("status %d: %q", r.status, r.body)
	}
}

// A server dies in the middle of its stream. The client gets what came, no
// clean end, and nothing that tells where the server is.
func TestStreamThatBreaksOffIsNeverGivenACleanEnd(t *testing.T) {
	g, a, b := pair(t, "")
	broken := func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range answerEvents[:3] {
			send(w, e)
		}
		panic(http.ErrAbortHandler)
	}
	a.answers(broken)
	b.answers(broken)
	res, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat(true, "", "hi")))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(bufio.NewReader(res.Body))
	if err == nil {
		t.Error("the stream ended cleanly")
	}
	want := "data: " + strings.Join(answerEvents[:3], "\n\ndata: ") + "\n\n"
	if string(got) != want {
		t.Errorf("the client got %q, want what the server sent: %q", got, want)
	}
	if n := a.count() + b.count(); n != 1 {
		t.Errorf("%d requests were sent, want 1: no retry after the first byte", n)
	}
	eventually(t, "the reservation to go back", func() bool {
		return g.endpoint("a").Calls+g.endpoint("b").Calls == 0
	})
}
