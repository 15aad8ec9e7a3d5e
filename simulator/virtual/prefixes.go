package virtual

import "slices"

// prefixes is what a gateway remembers of the prompts it has sent to one server:
// the most recently used pieces of them, as many as are thought to be in the
// server's cache.
type prefixes struct {
	room  int // pieces
	at    map[uint64]int32
	items []piece
	head  int32 // used longest ago
	tail  int32
}

type piece struct {
	id         uint64
	prev, next int32
}

func newPrefixes(room int) *prefixes {
	return &prefixes{room: room, at: make(map[uint64]int32), head: -1, tail: -1}
}

// match is how many of the leading pieces are remembered.
func (p *prefixes) match(ids []uint64) (n int) {
	for _, id := range ids {
		if _, ok := p.at[id]; !ok {
			break
		}
		n++
	}
	return n
}

// use remembers the pieces, the first as the most recent.
func (p *prefixes) use(ids []uint64) {
	for _, id := range slices.Backward(ids) {
		n, ok := p.at[id]
		switch {
		case ok:
			p.unlink(n)
		case len(p.items) < p.room:
			n = int32(len(p.items))
			p.items = append(p.items, piece{})
		case p.head < 0:
			return // no room at all
		default:
			n = p.head
			p.unlink(n)
			delete(p.at, p.items[n].id)
		}
		p.items[n].id = id
		p.at[id] = n
		p.link(n)
	}
}

func (p *prefixes) unlink(n int32) {
	x := p.items[n]
	if x.prev < 0 {
		p.head = x.next
	} else {
		p.items[x.prev].next = x.next
	}
	if x.next < 0 {
		p.tail = x.prev
	} else {
		p.items[x.next].prev = x.prev
	}
}

func (p *prefixes) link(n int32) {
	p.items[n].prev, p.items[n].next = p.tail, -1
	if p.tail < 0 {
		p.head = n
	} else {
		p.items[p.tail].next = n
	}
	p.tail = n
}
