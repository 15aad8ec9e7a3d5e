package admission

import (
	"errors"
	"io"
	"sync/atomic"
)

// bodies is the memory that the bodies of a pool's requests may take, from the
// first byte read until the answer has begun. What is being read counts as it
// comes, so that a client which announces much and sends nothing takes nothing.
type bodies struct{ held atomic.Int64 }

const (
	// smallBody is what most requests are below. An eighth of the memory is for
	// them alone: a few clients with large bodies must not keep out everybody.
	smallBody = 64 << 10
	reserved  = 8
)

// errNoMemory says that the bodies held are as many as may be.
var errNoMemory = errors.New("the memory for request bodies is used up")

// bound is how much may be held in all for one of the given size to be among it.
func bound(size, limit int64) int64 {
	if size <= smallBody {
		return limit
	}
	return limit - limit/reserved
}

// room reports whether a body of the given length, -1 for an unknown one, could
// be taken now.
func (b *bodies) room(length, limit int64) bool {
	return b.held.Load()+max(length, 1) <= bound(length, limit)
}

// share is what one request holds.
type share struct {
	of    *bodies
	limit int64
	held  int64
}

// take asks for n bytes more.
func (s *share) take(n int64) bool {
	if s.of.held.Add(n) > bound(s.held+n, s.limit) {
		s.of.held.Add(-n)
		return false
	}
	s.held += n
	return true
}

// set makes the share n bytes, whatever that does to the whole: a body that was
// changed is not refused for it.
func (s *share) set(n int64) {
	s.of.held.Add(n - s.held)
	s.held = n
}

// counted reads on account of a share.
type counted struct {
	from  io.Reader
	share *share
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if n > 0 && !c.share.take(int64(n)) {
		return n, errNoMemory
	}
	return n, err
}
