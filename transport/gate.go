package transport

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/answer"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The first-token gate. A server that accepts a request has promised nothing: it
// may send headers and say no more, or a 200 with an error in it. So the answer
// is read here until it has shown that something is being generated, and only
// then does the client get its head. Up to that moment another server may take
// over, and nobody will know.

// gateMost bounds what is held of an answer that has shown no token yet: role
// chunks, comments, pings. What goes on longer is let through.
const gateMost = 64 << 10

// gateFirst is what is read at first: most first events are shorter.
const gateFirst = 4 << 10

// heads are what answers are read into first. One goes back when all that is in it
// has been passed on.
var heads = sync.Pool{New: func() any { return new([gateFirst]byte) }}

// held is what the gate has read of an answer.
type held struct {
	head []byte
	err  error            // what ended the answer, nil while it goes on
	lent *[gateFirst]byte // of the pool, which head is part of; nil once it is not
}

// errEmpty is an answer that ended and had nothing in it.
var errEmpty = errors.New("the answer ended before it had begun")

// hold reads the answer until its fate is known. The error is why it will not do;
// what was read is with it.
func (a *attempt) hold(resp *http.Response, r answer.Reader) (held, error) {
	lent := heads.Get().(*[gateFirst]byte)
	h := held{head: lent[:0], lent: lent}
	facts := r.Facts()
	for {
		if len(h.head) == cap(h.head) {
			h.head = append(make([]byte, 0, 4*cap(h.head)), h.head...)
			h.giveBack()
		}
		n, err := resp.Body.Read(h.head[len(h.head):cap(h.head)])
		if n > 0 {
			now := time.Now()
			a.sawByte(now)
			fresh := h.head[len(h.head) : len(h.head)+n]
			h.head = h.head[:len(h.head)+n]
			r.Observe(fresh)
			if r.Stream() && facts.Tokens > 0 {
				a.sawTokens(facts.Tokens, now)
			}
		}
		h.err = err
		switch {
		case facts.Failed && facts.Tokens == 0:
			return h, errInBand
		case facts.Tokens > 0, facts.Whole(), len(h.head) >= gateMost:
			return h, nil
		case err == nil:
		case !errors.Is(err, io.EOF):
			return h, err
		case r.Stream() || len(h.head) == 0:
			return h, errEmpty
		default:
			return h, nil // whatever it is, it is complete
		}
	}
}

// giveBack is for when nobody needs what was read any more.
func (h *held) giveBack() {
	if h.lent != nil {
		heads.Put(h.lent)
		h.lent = nil
	}
}

// errInBand is an answer that began as a success and says that it is none.
var errInBand = errors.New("an error came in place of the answer")

// sawByte notes the first byte of the answer's body.
func (a *attempt) sawByte(now time.Time) {
	if c := a.call; c.FirstByte.IsZero() {
		c.FirstByte = now
		if c.Lease != nil && c.Generates() {
			a.endpoint.FirstByte.Observe(now.Sub(c.Lease.Start()))
		}
	}
}

// sawTokens notes that the stream now has so many events with a token.
func (a *attempt) sawTokens(n int, now time.Time) {
	c := a.call
	if n == c.TokenEvents {
		return
	}
	if c.TokenEvents == 0 {
		c.SawFirstToken(now)
	} else {
		a.endpoint.ObserveGap(now.Sub(c.LastToken), n-c.TokenEvents)
	}
	c.LastToken, c.TokenEvents = now, n
	a.endpoint.Progressed(now)
	a.got()
}

// firstTokenWithin is how long the Call's first token may take. A long prefill on
// a busy server is not a stall; five silent seconds for a short prompt are. When
// one server has been silent already, the request may be one that takes long, so
// the next has twice the time.
func (t *Transport) firstTokenWithin(c *llmlb.Call) time.Duration {
	least, most := t.firstTokenMin(), t.firstTokenMax()
	within := max(least, patienceFactor*min(c.Patience(), most))
	for range min(c.Silences, maxDoublings) {
		within *= 2
	}
	return min(within, most)
}

const (
	// patienceFactor is how many times the predicted time is waited for.
	patienceFactor = 4
	maxDoublings   = 8
)
