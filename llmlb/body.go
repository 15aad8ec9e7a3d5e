package llmlb

import (
	"io"
	"sync"
)

// content is a request body that is given up when it has been sent for the last
// time, though requests that were made of it may live for minutes longer. What
// reads it holds no more than this.
type content struct {
	mu      sync.Mutex
	bytes   []byte
	free    func([]byte) // takes the bytes back, nil where nobody wants them
	dropped bool
	reading int // readers that have not come to the end
}

// SetBody takes the whole body of the request, nil for none.
func (c *Call) SetBody(b []byte) {
	c.Body, c.body = b, nil
}

// LendBody is SetBody for bytes that somebody wants back: free gets them once, when
// the body was given up and nobody is sending it any more. It may not get them at all.
func (c *Call) LendBody(b []byte, free func([]byte)) {
	c.Body, c.body = b, &content{bytes: b, free: free}
}

// BodyReader returns a reader over the body for one attempt. Each attempt needs
// its own: the one before may still be reading from the last.
func (c *Call) BodyReader() io.ReadCloser {
	if c.body == nil {
		c.body = &content{bytes: c.Body}
	}
	c.body.mu.Lock()
	defer c.body.mu.Unlock()
	return &contentReader{content: c.body}
}

// ReleaseBody gives up the body, and the hashes of its prompt, because no other
// attempt will be made. An attempt that is still sending it finishes that.
func (c *Call) ReleaseBody() {
	if c.body != nil {
		c.body.drop()
	}
	c.Body, c.Blocks, c.givenUp = nil, nil, true
	if f := c.Released; f != nil {
		c.Released = nil
		f()
	}
}

// GivenUp reports whether the body was given up. Nothing of the Call can be sent
// again then, whatever becomes of the answer that was on its way.
func (c *Call) GivenUp() bool { return c.givenUp }

func (b *content) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dropped = true; b.reading == 0 {
		b.let()
	}
}

// let lets the bytes go. Under the lock.
func (b *content) let() {
	if b.bytes != nil && b.free != nil {
		b.free(b.bytes)
	}
	b.bytes = nil
}

// contentReader reads a content once. What it reads stays from its first byte on, or
// from [contentReader.Hold] on, until it has come to its end or is closed.
type contentReader struct {
	content *content
	at      int
	begun   bool
	ended   bool
	lent    bool // what comes next is being written from where it lies
	closed  bool // meanwhile
}

// Read implements io.Reader.
func (r *contentReader) Read(p []byte) (int, error) {
	b := r.content
	b.mu.Lock()
	defer b.mu.Unlock()
	r.begin()
	if r.ended {
		return 0, io.EOF
	}
	n := copy(p, b.bytes[r.at:])
	if r.at += n; r.at == len(b.bytes) {
		r.end()
		if n == 0 {
			return 0, io.EOF
		}
	}
	return n, nil
}

// Hold is for a reader that will be read or closed: a server may answer, and the body
// be given up with that, before the first byte of it is on its way.
func (r *contentReader) Hold() {
	r.content.mu.Lock()
	defer r.content.mu.Unlock()
	r.begin()
}

// begin counts the reader, if there is still something for it to read. Under the lock.
func (r *contentReader) begin() {
	switch {
	case r.begun:
	case r.content.dropped:
		r.ended = true
	default:
		r.content.reading++
	}
	r.begun = true
}

// end lets the bytes go if this was the last who needed them. Under the lock.
func (r *contentReader) end() {
	b := r.content
	r.ended = true
	if b.reading--; b.dropped && b.reading == 0 {
		b.let()
	}
}

// pieceMost is how much of a body is written at once. A time limit for writing is one
// for each piece.
const pieceMost = 256 << 10

// WriteUpTo writes what Read would return, at most so many bytes of it, without a copy
// in between.
func (r *contentReader) WriteUpTo(w io.Writer, most int64) (n int64, err error) {
	for err == nil && n < most {
		p := r.lend(min(most-n, pieceMost))
		if len(p) == 0 {
			break
		}
		var m int
		m, err = w.Write(p)
		r.wrote(m)
		n += int64(m)
	}
	return n, err
}

// lend returns the next bytes, at most so many. They stay until wrote is called.
func (r *contentReader) lend(most int64) []byte {
	b := r.content
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.begin(); r.ended {
		return nil
	}
	r.lent = true
	return b.bytes[r.at:min(len(b.bytes), r.at+int(most))]
}

// wrote gives back what was lent, n bytes of which have been written.
func (r *contentReader) wrote(n int) {
	r.content.mu.Lock()
	defer r.content.mu.Unlock()
	r.lent = false
	if r.at += n; r.closed || r.at == len(r.content.bytes) {
		r.end()
	}
}

// Close implements io.Closer. What was not read at all can still be: net/http closes
// the body of a request for which a connection was lost too early, and sends it on
// another.
func (r *contentReader) Close() error {
	r.content.mu.Lock()
	defer r.content.mu.Unlock()
	switch {
	case !r.begun || r.ended:
	case r.lent: // whoever writes it finishes that, or fails
		r.closed = true
	default:
		r.end()
		if r.at == 0 {
			r.begun, r.ended = false, false
		}
	}
	return nil
}
