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

// lender is a body that lies in memory as a whole.
type lender interface {
	// Hold keeps it until it has been read or closed.
	Hold()

	// WriteUpTo writes at most so many bytes of it from where they lie.
	WriteUpTo(w io.Writer, most int64) (int64, error)
}

// ReadFrom implements io.ReaderFrom for what of a request does not fit into
// net/http's own buffer. A body that is held is written from where it lies: net/http
// would make 32 KiB for each that is long, and copy it through there piece by piece.
func (c *candid) ReadFrom(r io.Reader) (int64, error) {
	if part, ok := r.(*io.LimitedReader); ok {
		if body, ok := part.R.(lender); ok {
			n, err := body.WriteUpTo(c, part.N)
			part.N -= n
			return n, err
		}
	}
	return io.Copy(onlyWriter{c}, r)
}

// onlyWriter keeps io.Copy from asking for ReadFrom again.
type onlyWriter struct{ io.Writer }
