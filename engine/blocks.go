package engine

import "slices"

// none ends the list of idle blocks.
const none = int32(-1)

// block is one page of KV memory.
type block struct {
	stamp      int64 // when it became idle, if it is
	refs       int32 // sequences that hold it
	prev, next int32 // neighbours among the idle blocks
}

// blockPool is the KV memory. Every block is in exactly one of three states:
// free (no content worth keeping), idle (findable, held by nobody, may be
// evicted) or referenced. Idle blocks form an intrusive list from the least to
// the most recently released, so finding, reviving and evicting are all O(1).
type blockPool struct {
	blocks     []block
	free       []int32 // a stack
	index      table
	head, tail int32 // idle blocks: head is evicted next
	idle       int
	clock      int64 // the stamp of the block that became idle last
	horizon    int64 // the stamp of the block that was evicted last
	published  int64 // blocks made findable since the start
	evictions  int64
}

func newBlockPool(total int) blockPool {
	p := blockPool{
		blocks: make([]block, total),
		free:   make([]int32, total),
		index:  newTable(total),
		head:   none,
		tail:   none,
	}
	for i := range p.free {
		// Low numbers on top, so that hand-made cases are easy to follow.
		p.free[i] = int32(total - 1 - i)
	}
	return p
}

// available is the number of blocks that could be handed out now.
func (p *blockPool) available() int { return len(p.free) + p.idle }

// referenced is the number of blocks that sequences hold.
func (p *blockPool) referenced() int { return len(p.blocks) - p.available() }

// take hands out a block without content, evicting the least recently used
// idle one if no free block is left. The caller has checked available.
func (p *blockPool) take() int32 {
	var i int32
	if n := len(p.free); n > 0 {
		i = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		i = p.head
		p.unlink(i)
		p.horizon = p.blocks[i].stamp
		p.index.remove(i)
		p.evictions++
	}
	p.blocks[i].refs = 1
	return i
}

// hold adds a reference to a findable block, reviving it if it was idle.
func (p *blockPool) hold(i int32) {
	b := &p.blocks[i]
	if b.refs == 0 {
		p.unlink(i)
	}
	b.refs++
}

// publish makes a block findable. A second block of the same content stays
// private: the first keeps the id.
func (p *blockPool) publish(i int32, id uint64) {
	if !p.index.has(i) && p.index.add(id, i) {
		p.published++
	}
}

// release gives up a sequence's blocks, tail first: the head of a prompt is
// what others share most, so it should be evicted last.
func (p *blockPool) release(blocks []int32) {
	for _, i := range slices.Backward(blocks) {
		b := &p.blocks[i]
		b.refs--
		switch {
		case b.refs > 0:
		case p.index.has(i):
			p.link(i)
		default:
			p.free = append(p.free, i)
		}
	}
}

// stampOf is the lowest stamp that a block will have when it is evicted.
func (p *blockPool) stampOf(i int32) int64 {
	if b := &p.blocks[i]; b.refs == 0 {
		return b.stamp
	}
	return p.clock + 1
}

func (p *blockPool) link(i int32) {
	b := &p.blocks[i]
	p.clock++
	b.stamp = p.clock
	b.prev, b.next = p.tail, none
	if p.tail == none {
		p.head = i
	} else {
		p.blocks[p.tail].next = i
	}
	p.tail = i
	p.idle++
}

func (p *blockPool) unlink(i int32) {
	b := &p.blocks[i]
	if b.prev == none {
		p.head = b.next
	} else {
		p.blocks[b.prev].next = b.next
	}
	if b.next == none {
		p.tail = b.prev
	} else {
		p.blocks[b.next].prev = b.prev
	}
	p.idle--
}
