package transport

import (
	"context"
	"crypto/tls"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A server may close a connection that waits for its next request, and it may do
// so at the very moment we send one. Nobody has read that request, so it can be
// sent again. But a server that has read it, works on it and then dies must not
// get it again: that would generate twice. What tells the two apart is time. A
// connection that was closed before the request reached it is reset as soon as
// the request gets there; an engine that reads a request and dies of it does so
// later. net/http's own replay does not look at the time, so it must never run
// for a request that generates.

// staleWithin is how soon after the request was written a reused connection must
// end, without one byte of an answer, to count as closed beforehand.
const staleWithin = 50 * time.Millisecond

// staleMost bounds the window where round trips are long. One dial that took a
// second, because a packet was lost, must not make a dead engine's work look
// unread.
const staleMost = 200 * time.Millisecond

// watch notes what happens to the connection of one try. Its hooks run in
// goroutines of net/http, also after RoundTrip has returned.
type watch struct {
	address string
	delays  *delays
	now     func() time.Time
	under   untraced // what its hooks stand on

	got      atomic.Bool  // a connection was there: without one nothing was sent
	reused   atomic.Bool  // it had served a request before
	wrote    atomic.Int64 // when the whole request was written, Unix nanoseconds
	answered atomic.Bool  // a first byte of the answer came

	short atomic.Pointer[shortBody] // what the request is written from

	mu      sync.Mutex
	dialing time.Time
	failure error // why there was no connection
}

// context returns ctx with the watch's hooks. Hooks already there stay. The one that
// reverse_proxy sets is taken over as it is, since net/http would join the two by
// reflection, which costs more than all the rest that is done here.
func (w *watch) context(ctx context.Context) context.Context {
	var informed func(int, textproto.MIMEHeader) error
	if t := httptrace.ContextClientTrace(ctx); t != nil && onlyInforms(t) {
		informed = t.Got1xxResponse
		w.under = untraced{ctx}
		ctx = &w.under
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: informed,
		ConnectStart:   func(string, string) { w.dial(w.now()) },
		ConnectDone:    func(_, _ string, err error) { w.dialed(w.now(), err) },
		DNSDone:        func(i httptrace.DNSDoneInfo) { w.fail(i.Err) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			w.fail(err)
		},
		GotConn: func(i httptrace.GotConnInfo) {
			w.reused.Store(i.Reused)
			w.got.Store(true)
		},
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				w.wrote.Store(w.now().UnixNano())
				if b := w.short.Swap(nil); b != nil {
					shorts.Put(b)
				}
			}
		},
		GotFirstResponseByte: func() { w.answered.Store(true) },
	})
}

// onlyInforms reports whether a trace has no hook but that for informational answers.
func onlyInforms(t *httptrace.ClientTrace) bool {
	return t.GetConn == nil && t.GotConn == nil && t.PutIdleConn == nil && t.GotFirstResponseByte == nil &&
		t.Got100Continue == nil && t.DNSStart == nil && t.DNSDone == nil && t.ConnectStart == nil && t.ConnectDone == nil &&
		t.TLSHandshakeStart == nil && t.TLSHandshakeDone == nil && t.WroteHeaderField == nil && t.WroteHeaders == nil &&
		t.Wait100Continue == nil && t.WroteRequest == nil
}

// untraced is a context without the trace that it has.
type untraced struct{ context.Context }

// Value implements [context.Context].
func (c *untraced) Value(key any) any {
	v := c.Context.Value(key)
	if _, is := v.(*httptrace.ClientTrace); is {
		return nil
	}
	return v
}

func (w *watch) dial(now time.Time) {
	w.mu.Lock()
	w.dialing = now
	w.mu.Unlock()
}

func (w *watch) dialed(now time.Time, err error) {
	w.mu.Lock()
	since := w.dialing
	w.mu.Unlock()
	if err == nil && !since.IsZero() {
		w.delays.set(w.address, now.Sub(since))
	}
	w.fail(err)
}

func (w *watch) fail(err error) {
	w.mu.Lock()
	w.failure = err
	w.mu.Unlock()
}

// why returns what kept the connection from being made, if that is known.
func (w *watch) why() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// tried reports whether anything was done to get a connection.
func (w *watch) tried() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure != nil || !w.dialing.IsZero()
}

// stale reports whether the try failed because its connection had been closed
// before the server could read the request. A request that was never written to
// its end cannot have been read to its end either.
func (w *watch) stale() bool {
	if !w.got.Load() || !w.reused.Load() || w.answered.Load() {
		return false
	}
	wrote := w.wrote.Load()
	if wrote == 0 {
		return true
	}
	window := min(max(staleWithin, 2*w.delays.of(w.address)), staleMost)
	return time.Duration(w.now().UnixNano()-wrote) <= window
}

// notRead reports whether a server that speaks HTTP/2 says that it has not read the
// request: it goes away, or refuses the stream. net/http would send it again by itself,
// had it not been kept from that, and tells so by no more than the text.
func notRead(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "http2: Transport: cannot retry err [") &&
		(strings.Contains(text, "GOAWAY") || strings.Contains(text, "REFUSED_STREAM"))
}

// delays remembers the shortest time it took to connect to each address, which
// is one round trip. Far upstreams need more than staleWithin for a reset to come back.
type delays struct {
	mu sync.Mutex
	by map[string]time.Duration
}

// maxDelays bounds the memory where upstreams come and go.
const maxDelays = 1024

func (d *delays) set(address string, delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil || len(d.by) >= maxDelays {
		d.by = make(map[string]time.Duration)
	}
	if best, known := d.by[address]; !known || delay < best {
		d.by[address] = delay
	}
}

func (d *delays) of(address string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.by[address]
}
