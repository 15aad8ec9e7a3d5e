package transport

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// body is a response body that is read along. Reads pass through it unchanged;
// its end, whichever way it comes, ends the attempt.
type body struct {
	io.ReadCloser
	attempt  *attempt
	ctx      context.Context // the client's
	observer observer        // nil when the answer is not one that we read
	outcome  llmlb.Outcome   // by the status alone
	stream   bool            // the observer reads events
	ended    bool
}

// Read passes on what the endpoint sent.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && b.observer != nil {
		b.observer.observe(p[:n])
		if n := b.observer.told().tokens; b.stream && n > b.attempt.call.TokenEvents {
			b.sawTokens(n, time.Now())
		}
	}
	if err != nil {
		b.end(err)
	}
	return n, err
}

// sawTokens notes that the stream now has so many events with a token.
func (b *body) sawTokens(n int, now time.Time) {
	c := b.attempt.call
	if c.TokenEvents == 0 {
		c.SawFirstToken(now)
	}
	c.LastToken, c.TokenEvents = now, n
}

// errGivenUp stands for a body that was closed before its end: nobody could
// take it any more.
var errGivenUp = errors.New("closed before the end")

// Close ends the attempt if reading has not.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end(errGivenUp)
	return err
}

func (b *body) end(err error) {
	if b.ended {
		return
	}
	b.ended = true
	c := b.attempt.call
	if b.observer != nil {
		b.observer.told().tell(c)
	}
	b.attempt.end(time.Now(), b.how(err))
}

// how tells the attempt's outcome from how its body ended. A status that says
// more than the body is the outcome.
func (b *body) how(err error) llmlb.Outcome {
	switch {
	case b.outcome != llmlb.Served:
		return b.outcome
	case errors.Is(err, io.EOF):
		return b.whole()
	case b.ctx.Err() != nil, errors.Is(err, errGivenUp):
		return llmlb.ClientGone
	}
	return llmlb.Truncated
}

// whole tells the outcome of a body that came to its proper end.
func (b *body) whole() llmlb.Outcome {
	stream, ok := b.observer.(*eventStream)
	if !ok {
		return llmlb.Served
	}
	switch f := stream.told(); {
	case f.overloaded && f.failed:
		return llmlb.Overloaded
	case f.failed:
		return llmlb.EngineError
	case f.finished || f.done:
		return llmlb.Served
	}
	return llmlb.Truncated
}

// outcomeOf tells what a status says about the endpoint. That a client sent
// nonsense says nothing about it.
func outcomeOf(status int) llmlb.Outcome {
	switch {
	case overloadStatus(status):
		return llmlb.Overloaded
	case status >= http.StatusInternalServerError:
		return llmlb.EngineError
	}
	return llmlb.Served
}

// observerFor chooses how to read the answer along, nil for not at all: what is
// compressed in spite of what we asked for, an error, or not a dialect we know.
func (a *attempt) observerFor(resp *http.Response) observer {
	if !a.observed || resp.StatusCode != http.StatusOK {
		return nil
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch kind {
	case "text/event-stream":
		return newEventStream()
	case "application/json":
		return newWholeJSON()
	}
	return nil
}
