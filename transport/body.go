package transport

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/answer"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// body is a response body that is read along. What the gate has held comes first;
// then reads pass through it unchanged. Its end, whichever way it comes, ends the
// attempt, and is a clean one only if the answer was whole.
type body struct {
	attempt *attempt
	rest    io.ReadCloser
	ready   []byte        // to be given before anything else is read
	held    held          // what ready is part of, until it was given
	pending error         // what ended rest, not yet acted upon
	over    error         // what the reader is told when nothing is ready any more
	last    byte          // the last one read
	reader  answer.Reader // nil when the answer is not one that we read
	text    bool          // its length tells how much was generated
	outcome llmlb.Outcome // by the status alone
	strip   *strip        // nil unless the client must not see the usage chunk
}

// strip takes the usage chunk out that was asked for in the client's place.
type strip struct {
	filter answer.UsageFilter
	in     []byte
	out    []byte
}

// stripMost is how much is read at once where something is taken out.
const stripMost = 16 << 10

// newBody puts what was held in front of what is still to come.
func (a *attempt) newBody(rest io.ReadCloser, r answer.Reader, h held, o llmlb.Outcome) *body {
	b := &body{attempt: a, rest: rest, ready: h.head, pending: h.err, reader: r, outcome: o}
	if n := len(h.head); n > 0 {
		b.last = h.head[n-1]
		b.sawEnd(h.err)
	}
	if a.call.StripUsage && b.stream() {
		b.strip = &strip{in: make([]byte, stripMost)}
		b.ready = b.strip.pass(h.head)
		h.giveBack()
	} else {
		b.held = h
	}
	return b
}

func (s *strip) pass(p []byte) []byte {
	s.out = s.filter.Filter(s.out[:0], p)
	return s.out
}

func (b *body) stream() bool { return b.reader != nil && b.reader.Stream() }

// Read passes on what the endpoint sent.
func (b *body) Read(p []byte) (int, error) {
	for {
		switch {
		case len(b.ready) > 0:
			n := copy(p, b.ready)
			if b.ready = b.ready[n:]; len(b.ready) == 0 {
				b.held.giveBack()
				b.ready, b.held = nil, held{}
			}
			return n, nil
		case b.over != nil:
			return 0, b.over
		case b.pending != nil:
			b.finish(b.pending)
		case len(p) == 0:
			return 0, nil
		case b.strip != nil:
			n, err := b.next(b.strip.in)
			b.ready, b.pending = b.strip.pass(b.strip.in[:n]), err
			if err != nil {
				b.strip.out = b.strip.filter.Flush(b.ready)
				b.ready = b.strip.out
			}
		default:
			n, err := b.next(p)
			if b.pending = err; n > 0 {
				return n, nil
			}
		}
	}
}

// next reads from the endpoint and takes in what came.
func (b *body) next(p []byte) (int, error) {
	a := b.attempt
	a.reads()
	n, err := b.rest.Read(p)
	if n == 0 {
		return 0, err
	}
	b.last = p[n-1]
	b.count(n)
	if a.call.FirstByte.IsZero() {
		a.sawByte(time.Now())
	}
	if b.reader != nil {
		b.reader.Observe(p[:n])
	}
	b.sawEnd(err)
	if !b.stream() {
		a.got()
	} else if tokens := b.reader.Facts().Tokens; tokens > a.call.TokenEvents {
		a.sawTokens(tokens, time.Now())
	}
	return n, err
}

// sawEnd tells, before it is passed on, that all of the answer has come.
func (b *body) sawEnd(err error) {
	if errors.Is(err, io.EOF) || b.reader != nil && b.reader.Facts().Whole() {
		b.attempt.call.SawEnd()
	}
}

// count counts what came, which is all there is to tell how long an answer is of
// which no usage is known.
func (b *body) count(n int) {
	if b.text {
		b.attempt.call.AnswerBytes += n
	}
}

// isText reports whether an answer is text that comes whole and can be measured:
// it is not if it is compressed, and most of what streams is the frame of events.
func isText(h http.Header) bool {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return false
	}
	kind := answer.MediaType(h.Get("Content-Type"))
	return kind == "application/json" || kind == "text/plain"
}

// errGivenUp stands for a body that was closed before its end: nobody could
// take it any more.
var errGivenUp = errors.New("closed before the end")

// errCut is the end of an answer that lacks its own.
var errCut = errors.New("the answer ended without its finish marker")

// Close ends the attempt if reading has not.
func (b *body) Close() error {
	if b.over == nil {
		b.finish(errGivenUp)
	}
	return b.rest.Close()
}

// finish ends the attempt.
func (b *body) finish(err error) {
	a, now := b.attempt, time.Now()
	var o llmlb.Outcome
	o, b.over = b.verdict(err)
	if b.reader != nil {
		tell(a.call, b.reader.Facts())
	}
	if o == llmlb.Overloaded && b.outcome == llmlb.Served {
		a.endpoint.NoteOverload(now, 0)
	}
	if o == llmlb.Truncated {
		a.logCut(b.over)
		if a.t.ErrorEvent == on && b.stream() {
			b.ready = b.cutEvent()
		}
	}
	a.end(now, o)
}

// verdict tells the attempt's outcome from how its body ended, and what the
// reader is to be told of that. A status that says more than the body is the
// outcome. What lacks its finish marker is given no clean end.
func (b *body) verdict(err error) (llmlb.Outcome, error) {
	a := b.attempt
	switch whole := errors.Is(err, io.EOF); {
	case whole && b.outcome != llmlb.Served:
		return b.outcome, io.EOF
	case whole && !b.stream():
		if b.reader != nil && b.reader.Facts().Tokens > 0 && !b.reader.Facts().Whole() {
			return llmlb.Truncated, errCut // JSON that does not end
		}
		return llmlb.Served, io.EOF
	case whole && blamesClient(b.reader.Facts()):
		a.call.Status = b.reader.Facts().Status // which tells that it was no failure
		return llmlb.Served, io.EOF
	case whole:
		return streamed(b.reader.Facts())
	case a.client.Err() != nil, errors.Is(err, errGivenUp):
		if b.outcome == llmlb.Served && b.stream() && b.reader.Facts().Whole() && !b.reader.Facts().Failed {
			return llmlb.Served, err // nobody waits for what comes behind the end
		}
		return llmlb.ClientGone, err
	case b.outcome != llmlb.Served:
		return b.outcome, err
	}
	return llmlb.Truncated, err
}

// blamesClient reports whether an error in an answer is about what was asked, or
// says that the engine cannot do that.
func blamesClient(f *answer.Facts) bool {
	return f.Failed && !f.Overloaded && (f.Status < http.StatusInternalServerError || f.Status == http.StatusNotImplemented)
}

// streamed tells the outcome of a stream that came to an end of its own.
func streamed(f *answer.Facts) (llmlb.Outcome, error) {
	switch {
	case f.Failed && f.Overloaded:
		return llmlb.Overloaded, io.EOF
	case f.Failed:
		return llmlb.EngineError, io.EOF
	case f.Whole():
		return llmlb.Served, io.EOF
	}
	return llmlb.Truncated, errCut
}

// cutEvent tells the client in its own dialect why there is no more. The stream
// may have been cut within a line, which is ended first.
func (b *body) cutEvent() []byte {
	p := answer.Problem{
		Status: http.StatusBadGateway, Code: "stream_cut",
		Message: "The inference server ended the stream before the answer was complete.",
	}
	switch {
	case errors.Is(b.over, errStalled):
		p.Code, p.Message = "stream_stalled", "The inference server sent no token for too long."
	case errors.Is(b.over, errDrained):
		p.Code, p.Message = "server_drained", "The inference server was taken out of service before the answer was complete."
	}
	api := b.attempt.call.API
	var event []byte
	if b.last != '\n' {
		event = append(event, '\n')
	}
	if request.StreamsSSE(api) {
		event = append(event, '\n')
	}
	return append(event, answer.ErrorEvent(api, p)...)
}

// tell writes the usage into the Call.
func tell(c *llmlb.Call, f *answer.Facts) {
	if f.Prompt >= 0 {
		c.PromptTokens = f.Prompt
	}
	if f.Cached >= 0 {
		c.CachedTokens = f.Cached
	}
	if f.Output >= 0 {
		c.OutputTokens = f.Output
	}
}
