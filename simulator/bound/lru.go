package bound

import (
	"slices"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// PooledLRU is the hit ratio of a single cache of so many tokens that serves the
// requests one after the other, in the order of the trace, and evicts as the
// engine does: the least recently used first, and of one request's the end before
// the beginning. Prompts occupy it, and answers as far as the trace knows them.
//
// It is what perfect locality would give engines of that capacity together, and
// no bound: some partitions protect what a single list would lose, and requests
// that run at once share and occupy memory in other ways.
func PooledLRU(t *trace.Trace, tokens int) float64 {
	l := newLayout(t)
	c := newLRU(l.kinds)
	sum := 0
	for i := range t.Requests {
		sum += l.leading(i, c.held)
		pieces := l.pieces(i)
		for k, piece := range slices.Backward(pieces) {
			c.use(piece, l.occupied(i, k))
		}
		c.shrink(max(tokens, 0))
	}
	return share(t, sum)
}

// lru is a list of pieces, from the most to the least recently used, with an
// additional element that closes it to a ring. Of the last piece only its
// beginning may be held.
type lru struct {
	held       []int
	prev, next []int32
	ring       int32
	tokens     int
}

func newLRU(kinds int) *lru {
	c := &lru{
		held: make([]int, kinds),
		prev: make([]int32, kinds+1),
		next: make([]int32, kinds+1),
		ring: int32(kinds),
	}
	c.prev[c.ring], c.next[c.ring] = c.ring, c.ring
	return c
}

// use makes a piece the most recently used, and the cache hold n of its tokens.
func (c *lru) use(id int32, n int) {
	if c.held[id] > 0 {
		c.unlink(id)
	}
	c.tokens += n - c.held[id]
	c.held[id] = n
	if n == 0 {
		return
	}
	first := c.next[c.ring]
	c.prev[id], c.next[id] = c.ring, first
	c.next[c.ring], c.prev[first] = id, id
}

// shrink evicts what does not fit.
func (c *lru) shrink(capacity int) {
	for c.tokens > capacity {
		last := c.prev[c.ring]
		n := min(c.tokens-capacity, c.held[last])
		c.held[last] -= n
		c.tokens -= n
		if c.held[last] == 0 {
			c.unlink(last)
		}
	}
}

func (c *lru) unlink(id int32) {
	c.next[c.prev[id]], c.prev[c.next[id]] = c.next[id], c.prev[id]
}
