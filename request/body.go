package request

import (
	"errors"
	"io"
)

// ErrTooLong says that there is more of a body than may be read.
var ErrTooLong = errors.New("body is longer than max_body")

// How much memory a body gets before any of it came, at least and at most.
const (
	bodyLeast = 511
	bodyFirst = 64 << 10
)

// ReadBody reads a body to its end. length is what the client says it has, -1
// when it says nothing; memory grows with what came, not with that. After an
// error, [ErrTooLong] where more than limit bytes came, it returns what was
// read: the rest is still on its way.
func ReadBody(r io.Reader, length, limit int64) ([]byte, error) {
	// One byte more than announced, so that the end is seen without growing,
	// and never more than one over the limit.
	body := make([]byte, 0, min(max(length, bodyLeast), limit, bodyFirst)+1)
	for {
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return body, ErrTooLong
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return body, err
		}
		if len(body) == cap(body) {
			size := min(2*int64(cap(body)), limit+1)
			if length >= int64(len(body)) {
				size = min(size, length+1)
			}
			grown := make([]byte, len(body), size)
			copy(grown, body)
			body = grown
		}
	}
}
