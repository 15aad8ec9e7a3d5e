package engine

import (
	"math"
	"slices"
)

// Store is a prefix cache that the replicas of an imagined pool share: what one
// of them has computed, all find, and fetching it costs neither time nor
// compute, only memory in the replica that uses it. No real pool has one; it is
// the yardstick for how much a balancer loses by having to choose.
//
// It keeps blocks by when they were last published, found or released, and
// forgets the least recent first, of one prompt the tail before the head.
// Whether replicas still hold a block does not matter. Like a Replica it is not
// safe for concurrent use, also not by two replicas.
type Store struct {
	blockSize  int
	infinite   bool
	limit      int // in blocks, unless infinite
	index      table
	nodes      []node // of a finite store; the index has their places
	head, tail int32  // head is forgotten next
	clock      int64  // the stamp of the last use
	horizon    int64  // the stamp of what was forgotten last
}

// node is a block in the order of use.
type node struct {
	stamp      int64
	prev, next int32
}

// NewStore returns an empty store of so many tokens; 0 or less is without
// limit. What does not fill a whole block is not used. blockSize must be that
// of the replicas.
func NewStore(tokens, blockSize int) *Store {
	return &Store{
		blockSize: blockSize,
		infinite:  tokens <= 0,
		limit:     max(0, tokens) / blockSize,
		head:      none,
		tail:      none,
	}
}

// Tokens is the number of tokens that the store holds.
func (s *Store) Tokens() int { return s.index.length * s.blockSize }

func (s *Store) has(id uint64) bool {
	_, ok := s.index.get(id)
	return ok
}

// put makes the blocks the most recently used ones, the first of them last, so
// that heads stay longest. It adds those that are missing.
func (s *Store) put(ids []uint64) {
	for _, id := range slices.Backward(ids) {
		s.putOne(id)
	}
}

// touch is put for blocks that were put before: where none is ever forgotten,
// their order does not matter.
func (s *Store) touch(ids []uint64) {
	if !s.infinite {
		s.put(ids)
	}
}

func (s *Store) putOne(id uint64) {
	if s.infinite {
		s.index.add(id, 0) // that it is there is all that matters
		return
	}
	if s.limit == 0 {
		return
	}
	i, ok := s.index.get(id)
	switch {
	case ok:
		s.unlink(i)
	case len(s.nodes) < s.limit:
		i = int32(len(s.nodes))
		s.nodes = append(s.nodes, node{})
		s.index.add(id, i)
	default:
		i = s.head
		s.horizon = s.nodes[i].stamp
		s.unlink(i)
		s.index.remove(i)
		s.index.add(id, i)
	}
	s.link(i)
}

// stampOf is the lowest stamp that a block will have when it is forgotten.
func (s *Store) stampOf(i int32) int64 {
	if s.infinite {
		return math.MaxInt64
	}
	return s.nodes[i].stamp
}

func (s *Store) link(i int32) {
	n := &s.nodes[i]
	s.clock++
	n.stamp = s.clock
	n.prev, n.next = s.tail, none
	if s.tail == none {
		s.head = i
	} else {
		s.nodes[s.tail].next = i
	}
	s.tail = i
}

func (s *Store) unlink(i int32) {
	n := &s.nodes[i]
	if n.prev == none {
		s.head = n.next
	} else {
		s.nodes[n.prev].next = n.next
	}
	if n.next == none {
		s.tail = n.prev
	} else {
		s.nodes[n.next].prev = n.prev
	}
}
