package admission

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llmlb/caddy-llmlb/answer"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

const eventStream = "text/event-stream"

// beats reports whether the Call's answer may be preceded by comments.
func (h *Handler) beats(c *llmlb.Call) bool {
	return h.Heartbeat > 0 && c.Stream && request.StreamsSSE(c.API)
}

// heartbeat keeps a client company until its answer begins: every interval a
// comment, before the first of them a status. It is the ResponseWriter of all
// that comes behind it. The client's own is written to by one side at a time: by
// the beats, under the mutex, until the handover, which happens once, and after
// that by whoever answers.
//
// Once the client has a status, an event stream is passed on without its
// headers, and any other answer becomes an event when it has ended.
type heartbeat struct {
	*caddyhttp.ResponseWriterWrapper // the client's
	ctx                              context.Context
	leave                            context.CancelFunc // says that the client has left
	api                              string

	mu        sync.Mutex
	mode      mode
	committed bool
	header    http.Header // of the answer, until it is known to be the client's
	swallowed swallowed

	stop, done chan struct{}
}

// mode is who writes to the client, and how.
type mode uint8

const (
	beating    mode = iota // the beats
	quiet                  // nobody any more, or not yet
	passing                // the answer, which is all that the client gets
	flowing                // an event stream that follows comments
	swallowing             // nobody: what the answer says becomes an event
)

// startHeartbeat begins to beat. The request's context ends from now on also when
// a beat finds the client gone.
func startHeartbeat(w http.ResponseWriter, r *http.Request, api string, interval time.Duration) *heartbeat {
	b := &heartbeat{
		ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w},
		api:                   api, header: w.Header().Clone(),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if b.header == nil {
		b.header = make(http.Header)
	}
	b.ctx, b.leave = context.WithCancel(r.Context())
	*r = *r.WithContext(b.ctx)
	go b.run(interval)
	return b
}

func (b *heartbeat) run(interval time.Duration) {
	defer close(b.done)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-b.ctx.Done():
			return
		case <-tick.C:
			if !b.beat() {
				return
			}
		}
	}
}

// beat writes one comment and reports whether there may be another.
func (b *heartbeat) beat() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mode != beating {
		return false
	}
	if !b.committed {
		h := b.ResponseWriter.Header()
		h.Set("Content-Type", eventStream)
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		b.committed = true
		b.ResponseWriter.WriteHeader(http.StatusOK)
	}
	if b.send(answer.Comment(b.api)) != nil {
		b.leave()
		return false
	}
	return true
}

// send writes to the client at once.
func (b *heartbeat) send(p []byte) error {
	if _, err := b.ResponseWriter.Write(p); err != nil {
		return err
	}
	if err := http.NewResponseController(b.ResponseWriter).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// begun reports whether the client had its status from here. Nil is no heartbeat.
func (b *heartbeat) begun() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.committed
}

// take ends the beats for an answer of ours, and reports whether the client has
// its status already. Nil is no heartbeat.
func (b *heartbeat) take() (committed bool) {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silence()
	if !b.committed && b.mode == quiet {
		b.pass()
	}
	return b.committed
}

// silence ends the beats. Under the mutex.
func (b *heartbeat) silence() {
	if b.mode == beating {
		b.mode = quiet
		close(b.stop)
	}
}

// pass makes the answer's headers the client's. Under the mutex.
func (b *heartbeat) pass() {
	h := b.ResponseWriter.Header()
	clear(h)
	maps.Copy(h, b.header)
	b.mode = passing
}

// hand hands the client's ResponseWriter over to an answer with this status, if
// that has not happened, and tells how it is to be written.
func (b *heartbeat) hand(status int) mode {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silence()
	switch {
	case b.mode != quiet:
	case !b.committed:
		b.pass()
	case status == http.StatusOK && follows(b.header):
		b.mode = flowing
	default:
		b.mode = swallowing
		b.swallowed.status = status
	}
	return b.mode
}

// follows reports whether an answer with these headers can follow a comment.
func follows(h http.Header) bool {
	e := h.Get("Content-Encoding")
	return answer.MediaType(h.Get("Content-Type")) == eventStream && (e == "" || strings.EqualFold(e, "identity"))
}

// Header returns the answer's headers, which are the client's once nobody else
// can write those.
func (b *heartbeat) Header() http.Header {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mode == passing {
		return b.ResponseWriter.Header()
	}
	return b.header
}

// WriteHeader implements http.ResponseWriter. What comes before the real status
// is for clients that have none.
func (b *heartbeat) WriteHeader(status int) {
	if status < http.StatusOK && status != http.StatusSwitchingProtocols {
		return
	}
	if b.hand(status) == passing {
		b.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (b *heartbeat) Write(p []byte) (int, error) {
	if b.hand(http.StatusOK) == swallowing {
		return b.swallowed.Write(p)
	}
	return b.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom.
func (b *heartbeat) ReadFrom(r io.Reader) (int64, error) {
	if b.hand(http.StatusOK) == swallowing {
		return io.Copy(&b.swallowed, r)
	}
	return b.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError implements what http.ResponseController asks for.
func (b *heartbeat) FlushError() error {
	if b.hand(http.StatusOK) == swallowing {
		return nil
	}
	return http.NewResponseController(b.ResponseWriter).Flush()
}

// end gives the client's ResponseWriter back: nothing writes to it any more. An
// answer that could not be passed on is told as an event, unless everything
// breaks off.
func (b *heartbeat) end(returned bool) {
	b.mu.Lock()
	b.silence()
	if b.mode == quiet && !b.committed {
		b.pass()
	}
	lacking := b.committed && b.mode != flowing
	b.mu.Unlock()
	<-b.done
	if lacking && returned && b.ctx.Err() == nil {
		_ = b.send(append(answer.ErrorEvent(b.api, b.swallowed.problem()), answer.EndMarker(b.api)...))
	}
}
