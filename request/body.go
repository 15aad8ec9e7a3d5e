package request

import (
	"errors"
	"io"
	"math/bits"
	"sync"
)

// ErrTooLong says that there is more of a body than may be read.
var ErrTooLong = errors.New("body is longer than max_body")

// How much memory a body gets before any of it came, at least and at most.
const (
	bodyLeast = 512
	bodyFirst = 64 << 10
)

// ReadBody reads a body to its end. length is what the client says it has, -1
// when it says nothing; memory grows with what came, not with that. After an
// error, [ErrTooLong] where more than limit bytes came, it returns what was
// read: the rest is still on its way. What it returns may be given to [FreeBody]
// when nobody needs it any more.
func ReadBody(r io.Reader, length, limit int64) ([]byte, error) {
	// One byte more than announced, so that the end is seen without growing,
	// and never more than one over the limit.
	lent := length < 1<<kindMost // what grows beyond leaves nothing behind that others need
	body := bodyOf(min(max(length+1, bodyLeast), bodyFirst), limit, lent)
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
			size := 2 * int64(cap(body))
			switch {
			case length < int64(len(body)):
			case lent: // it has sent enough to be believed
				size = length + 1
			default: // one more, so that the last doubling has room for the end
				size = min(size+1, length+1)
			}
			grown := append(bodyOf(size, limit, lent), body...)
			if lent {
				FreeBody(body)
			}
			body = grown
		}
	}
}

// Bodies come and go with every request, and are most of what a gateway allocates. So
// those that are not too large go from one request to the next, in memory of a power of
// two of bytes.
const (
	kindLeast = 9  // 512 B
	kindMost  = 20 // 1 MiB
)

var kept [kindMost + 1]sync.Pool // of *[]byte, by the logarithm of their size

// bodyOf returns an empty body with room for that many bytes, or for limit and one if
// that is less. It may be of those that were lent before.
func bodyOf(size, limit int64, lent bool) []byte {
	size = min(size, limit+1)
	kind := max(kindLeast, bits.Len64(uint64(size-1)))
	if kind > kindMost || !lent {
		return make([]byte, 0, size)
	}
	if b, ok := kept[kind].Get().(*[]byte); ok {
		return clipped(*b, limit)
	}
	return clipped(make([]byte, 0, 1<<kind), limit)
}

// clipped leaves no room beyond the byte by which a body is found to be too long.
func clipped(b []byte, limit int64) []byte {
	if int64(cap(b)) > limit+1 {
		return b[: 0 : limit+1]
	}
	return b
}

// FreeBody takes back what [ReadBody] returned. Nobody may read it any more: another
// request's body is read into it.
func FreeBody(b []byte) {
	kind := bits.Len(uint(cap(b))) - 1
	if kind < kindLeast || kind > kindMost || cap(b) != 1<<kind {
		return // clipped, or larger than is worth keeping
	}
	b = b[:0]
	kept[kind].Put(&b)
}
