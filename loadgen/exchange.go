package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/answer"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// errStopped is why a request ends that was open when the run was ended early.
var errStopped = errors.New("the run was ended")

// exchange is one request under way.
type exchange struct {
	run      *runner
	intended time.Time
	sample   sample
	keep     bool // the answer's text, for the next turn
	text     transcript

	first, last time.Time // tokens
}

// buffers are what answers are read into; one is enough for some hundred tokens.
var buffers = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// do sends the body and reads the answer to its end.
func (x *exchange) do(ctx context.Context, body []byte) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(x.run.s.Timeout), context.DeadlineExceeded)
	defer cancel()
	x.sample.late = time.Since(x.intended)
	err := x.send(ctx, body)
	x.sample.e2e = time.Since(x.intended)
	switch {
	case x.sample.outcome != "": // told by the answer
	case errors.Is(context.Cause(ctx), errStopped):
		x.sample.outcome = Stopped
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		x.fail(TimedOut, "no end after "+time.Duration(x.run.s.Timeout).String())
	case x.sample.status == 0:
		x.fail(Unreachable, err.Error())
	default:
		x.fail(Truncated, err.Error())
	}
}

// send leaves the outcome empty where the exchange broke off, and says why.
func (x *exchange) send(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.run.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	x.run.dress(req.Header, x.sample.class, x.sample.tenant)
	resp, err := x.run.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	x.sample.status, x.sample.endpoint = resp.StatusCode, resp.Header.Get("X-LLM-Endpoint")
	if resp.StatusCode != http.StatusOK {
		return x.refused(resp)
	}
	reader := answer.New(x.run.api, resp.Header.Get("Content-Type"))
	if reader == nil || !reader.Stream() {
		x.fail(Failed, fmt.Sprintf("asked for a stream, got Content-Type %q", resp.Header.Get("Content-Type")))
		return nil
	}
	err = x.read(resp.Body, reader)
	x.usage(reader.Facts())
	return err
}

// refused reads what the server says.
func (x *exchange) refused(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	outcome := Failed
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		outcome = Refused
	case http.StatusServiceUnavailable:
		outcome = Unavailable
	}
	x.fail(outcome, said(raw))
	return err
}

// said finds the message in an error's body.
func said(raw []byte) string {
	var told struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	var inner struct {
		Message string `json:"message"`
	}
	var text string
	if json.Unmarshal(raw, &told) == nil {
		switch {
		case json.Unmarshal(told.Error, &inner) == nil && inner.Message != "":
			return inner.Message
		case json.Unmarshal(told.Error, &text) == nil && text != "":
			return text
		case told.Message != "":
			return told.Message
		}
	}
	return strings.TrimSpace(string(raw))
}

// read notes when tokens come. Those that come together are no time apart, as
// they are for whoever reads them.
func (x *exchange) read(from io.Reader, reader answer.Reader) error {
	buf := buffers.Get().(*[16 << 10]byte)
	defer buffers.Put(buf)
	facts := reader.Facts()
	for {
		before := facts.Tokens
		n, err := from.Read(buf[:])
		if n > 0 {
			reader.Observe(buf[:n])
			x.tokens(facts.Tokens - before)
			if x.keep {
				x.text.observe(buf[:n])
			}
		}
		switch {
		case err == nil:
		case facts.Failed:
			x.fail(Failed, fmt.Sprintf("the stream told an error, status %d", facts.Status))
			return nil
		case facts.Finished && facts.Done:
			x.sample.outcome = OK // whatever happened to the connection then
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("the stream ended without finish_reason and [DONE]")
		default:
			return err
		}
	}
}

func (x *exchange) tokens(n int) {
	if n == 0 {
		return
	}
	now := time.Now()
	if x.first.IsZero() {
		x.first, x.last = now, now
		x.sample.ttft = max(1, now.Sub(x.intended))
		x.run.record.firstToken(x.sample.ttft)
	} else {
		x.sample.gaps = append(x.sample.gaps, now.Sub(x.last))
	}
	x.sample.gaps = append(x.sample.gaps, make([]time.Duration, n-1)...)
	x.last = now
	x.sample.output += n
	x.run.record.tokens.Add(int64(n))
}

// usage takes the server's word for how many tokens there were.
func (x *exchange) usage(f *answer.Facts) {
	if f.Output != llmlb.Unknown {
		x.run.record.tokens.Add(int64(f.Output - x.sample.output))
		x.sample.output = f.Output
	}
	if f.Prompt != llmlb.Unknown {
		x.sample.input = f.Prompt
	}
	x.sample.cached = max(0, f.Cached)
}

func (x *exchange) fail(outcome, message string) {
	x.sample.outcome, x.sample.message = outcome, message
}

// apiOf is the name that package answer knows the API by.
func apiOf(api string) string {
	if api == completions {
		return request.Completions
	}
	return request.Chat
}
