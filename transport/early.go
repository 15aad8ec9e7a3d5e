package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// answerWithin is how long a connection that takes no more of a request is given
// to show the answer that the server sent before it hung up.
const answerWithin = time.Second

// candid is a connection whose errors of writing come after what can still be
// read from it. A server that answers an upload early and hangs up makes both:
// an answer that has arrived, and a write that fails. net/http goes by the first
// it hears of, and would lose the answer every other time.
type candid struct {
	net.Conn
	once sync.Once
	over chan struct{} // nothing more can be read
}

// candidly makes a dialer's connections candid.
func candidly(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &candid{Conn: c, over: make(chan struct{})}, nil
	}
}

func (c *candid) end() { c.once.Do(func() { close(c.over) }) }

// Read implements net.Conn.
func (c *candid) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.end()
	}
	return n, err
}

// Close implements net.Conn.
func (c *candid) Close() error {
	c.end()
	return c.Conn.Close()
}

// Write implements net.Conn.
func (c *candid) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
		wait := time.NewTimer(answerWithin)
		defer wait.Stop()
		select {
		case <-c.over:
		case <-wait.C:
		}
	}
	return n, err
}

// pieces are what long bodies go through on their way to a server.
var pieces = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// ReadFrom implements io.ReaderFrom for what of a request does not fit into
// net/http's own buffer. Without it, each long body would have 32 KiB made for it,
// cleared and thrown away.
func (c *candid) ReadFrom(r io.Reader) (int64, error) {
	piece := pieces.Get().(*[64 << 10]byte)
	defer pieces.Put(piece)
	return io.CopyBuffer(onlyWriter{c}, r, piece[:])
}

// onlyWriter keeps io.Copy from asking for ReadFrom again.
type onlyWriter struct{ io.Writer }
