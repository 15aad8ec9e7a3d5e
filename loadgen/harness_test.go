package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// engine answers requests by a script, in the bubble's time and without a network.
type engine struct {
	answer func(a *asked, w *reply)

	mu      sync.Mutex
	asked   []*asked
	answers sync.WaitGroup
}

// asked is a request as the engine got it.
type asked struct {
	n      int // from 0
	at     time.Time
	header http.Header
	path   string
	body   body
	ctx    context.Context
}

// reply is what the engine answers.
type reply struct {
	status int
	header http.Header
	pipe   *io.PipeWriter
	head   chan struct{}
	sent   sync.Once
	cut    error // how the connection ends; nil: as it should
}

func (e *engine) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a := &asked{at: time.Now(), header: r.Header, path: r.URL.Path, ctx: r.Context()}
	if err := json.Unmarshal(raw, &a.body); err != nil {
		return nil, err
	}
	e.mu.Lock()
	a.n = len(e.asked)
	e.asked = append(e.asked, a)
	e.mu.Unlock()

	from, to := io.Pipe()
	w := &reply{status: 200, header: http.Header{"Content-Type": {"text/event-stream"}}, pipe: to, head: make(chan struct{})}
	gone := context.AfterFunc(r.Context(), func() { to.CloseWithError(r.Context().Err()) })
	e.answers.Go(func() {
		defer gone()
		e.answer(a, w)
		w.begin()
		to.CloseWithError(w.cut) // nil is EOF
	})
	select {
	case <-w.head:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if w.status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: w.status, Header: w.header, Body: from, Request: r}, nil
}

// begin sends the headers.
func (w *reply) begin() { w.sent.Do(func() { close(w.head) }) }

func (w *reply) event(data string) {
	w.begin()
	_, _ = io.WriteString(w.pipe, "data: "+data+"\n\n")
}

func (w *reply) token(text string) {
	w.event(`{"choices":[{"index":0,"delta":{"content":"` + text + `"}}]}`)
}

// stream answers with so many tokens, the first after a time, the others with a
// gap between, and ends well.
func (w *reply) stream(first, gap time.Duration, n int) {
	time.Sleep(first)
	for i := range n {
		if i > 0 {
			time.Sleep(gap)
		}
		w.token("x ")
	}
	w.end()
}

func (w *reply) end() {
	w.event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	w.event("[DONE]")
}

func (w *reply) error(status int, body string) {
	w.status = status
	w.header.Set("Content-Type", "application/json")
	w.begin()
	_, _ = io.WriteString(w.pipe, body)
}

// carry carries a scenario out in a bubble and reports.
func carry(t *testing.T, s Scenario, answer func(*asked, *reply)) (*Report, *engine) {
	t.Helper()
	e := &engine{answer: answer}
	var r *Report
	synctest.Test(t, func(t *testing.T) {
		run := newRunner(completed(t, s), "http://engine.test/v1/chat/completions", "secret", e)
		run.do(t.Context())
		e.answers.Wait()
		r = run.record.report("http://engine.test/v1/chat/completions")
	})
	return r, e
}

func within(t *testing.T, what string, ms float64, want time.Duration) {
	t.Helper()
	if x := float64(want) / float64(time.Millisecond); ms < x*0.99 || ms > x*1.01 {
		t.Errorf("%s is %vms, expected %s", what, ms, want)
	}
}

func text(r interface{ WriteTable(io.Writer) error }) string {
	var b strings.Builder
	_ = r.WriteTable(&b)
	return b.String()
}
