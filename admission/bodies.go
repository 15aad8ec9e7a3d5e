package admission

import (
	"errors"
	"io"
	"sync/atomic"
)

// bodies is the memory that the bodies of a pool's requests may take, from the
// first byte read until the answer has begun. What is being read counts as it
// comes, so that a client which announces much and sends nothing takes next to
// nothing.
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
	held := b.held.Load()
	return held == 0 || held+max(length, 1) <= bound(length, limit)
}

// share is what one request holds.
type share struct {
	of    *bodies
	limit int64
	held  int64
}

// take asks for n bytes more.
func (s *share) take(n int64) bool {
	s.held += n
	all := s.of.held.Add(n)
	alone := all == s.held // what is reserved then keeps out nobody
	if all <= bound(s.held, s.limit) || alone && all <= s.limit {
		return true
	}
	s.set(s.held - n)
	return false
}

// set makes the share n bytes, whatever that does to the whole: a body that was
// changed is not refused for it.
func (s *share) set(n int64) {
	s.of.held.Add(n - s.held)
	s.held = n
}

// counted reads on account of a share, into a buffer that grows: what it has room
// for counts, since that is the memory it takes.
type counted struct {
	from  io.Reader
	share *share
	most  int64 // how much can come
	read  int64
	paid  int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	if room := min(c.read+int64(len(p)), c.most); room > c.paid {
		if !c.share.take(room - c.paid) {
			return 0, errNoMemory
		}
		c.paid = room
	}
	n, err := c.from.Read(p)
	c.read += int64(n)
	return n, err
}
