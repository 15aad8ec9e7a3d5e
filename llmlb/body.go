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

// contentReader reads a content once.
type contentReader struct {
	content *content
	at      int
	begun   bool
	ended   bool
}

// Read implements io.Reader.
func (r *contentReader) Read(p []byte) (int, error) {
	b := r.content
	b.mu.Lock()
	defer b.mu.Unlock()
	if !r.begun {
		r.begun = true
		if b.dropped {
			r.ended = true
		} else {
			b.reading++
		}
	}
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

// end lets the bytes go if this was the last who needed them. Under the lock.
func (r *contentReader) end() {
	b := r.content
	r.ended = true
	if b.reading--; b.dropped && b.reading == 0 {
		b.let()
	}
}

// Close implements io.Closer.
func (r *contentReader) Close() error {
	r.content.mu.Lock()
	defer r.content.mu.Unlock()
	if r.begun && !r.ended {
		r.end()
	}
	return nil
}
