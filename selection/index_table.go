package selection

import (
	"math/bits"
	"time"
	"unsafe"
)

// The table is built like a processor's cache: a hash names a set of eight
// entries, and a full set gives up the entry that was used least recently. Its
// memory is one array allocated once, without pointers, so the budget holds
// exactly, the garbage collector has nothing to scan, and no lists have to be
// kept up. The price is that eviction is least-recently-used within each set,
// and over the whole only by statistics.
type table struct {
	sets    []set
	used    int
	touched uint64 // keeps touch from being compiled away
}

// set keeps together what belongs together. Sets are met in no order, and what takes
// time is to find out where the page of memory is that one is on: that is once for
// each block, and would be three times with an array for each of the fields. The
// hashes and the stamps are on two lines of memory, an entry is on one more.
type set struct {
	hashes  [ways]uint64 // 0 is a free entry
	last    [ways]stamp  // when each entry was last used
	entries [ways]entry
}

const (
	ways       = 8  // entries in a set
	slotsEach  = 4  // endpoints remembered in an entry
	levelsMax  = 16 // entries of a block that many endpoints hold
	tickLength = 100 * time.Millisecond
	tickBits   = 31 // 6.8 years
	tickMask   = 1<<tickBits - 1
)

// entry is who holds a block. Few blocks are held by more endpoints than it has
// slots for, but those few are what most prompts begin with: who has no slot
// there any more has another entry, as if it were another block's.
type entry struct{ slots [slotsEach]slot }

// overflows reports whether the entry has been full, so that there may be another.
func (e *entry) overflows() bool { return e.slots[slotsEach-1].stamp != 0 }

// overflow is the hash of a block's next entry.
func overflow(hash uint64) uint64 { return mix(whole(hash) ^ 0x6f766572666c6f77) }

// crowdFor is for how long an endpoint that has not used a block keeps its slot
// when all are taken and another endpoint wants one. As long as all of them are
// in use, the block gets one more entry.
const crowdFor = 10 * time.Minute

// slot is one endpoint that holds a block. The cache is Endpoint.CacheID, 0 for
// a free slot: when an engine restarts it gets another one, and what it held is
// invisible from then on.
type slot struct {
	cache uint32
	stamp stamp
}

// stamp is when a slot was last used, in ticks, and in its lowest bit whether
// a first token has proved it.
type stamp uint32

// stampOf is the stamp of a prompt's block with that number. Deeper blocks look
// a little older, so that a full set gives up the tail of a prompt before the head
// without which the tail is useless.
func stampOf(tick uint32, number int, proved bool) stamp {
	s := stamp((tick-uint32(number/deeperBy))&tickMask) << 1
	if proved {
		s |= 1
	}
	return s
}

// deeperBy is how many blocks further down the next look one tick older.
const deeperBy = 16

// used is when the block with that number got the stamp.
func (s stamp) used(number int) use {
	return usedAt(uint32(s>>1)+uint32(number/deeperBy), number)
}

func (s stamp) proved() bool { return s&1 != 0 }

// newer reports whether s is later than t; the clock may have wrapped.
func (s stamp) newer(t stamp) bool { return int32(s&^1-t&^1) > 0 }

func (s *slot) valid(tick uint32) bool {
	return s.stamp.proved() || s.stamp.within(pendingFor, tick)
}

// within reports whether the stamp is no older than that.
func (s stamp) within(d time.Duration, tick uint32) bool {
	return int32(stamp(tick<<1)-s&^1)>>1 <= int32(d/tickLength)
}

// setBytes is what one set takes.
const setBytes = int64(unsafe.Sizeof(set{}))

// newTable returns a table that takes no more than the given bytes, and at
// least one set.
func newTable(bytes int64) table { return table{sets: make([]set, max(1, bytes/setBytes))} }

func (t *table) empty() bool { return t.sets == nil }

// number returns that of the hash's set. Multiplying takes the hash's high bits and
// needs no power of two.
func (t *table) number(hash uint64) uint64 {
	hi, _ := bits.Mul64(hash, uint64(len(t.sets)))
	return hi
}

func (t *table) set(hash uint64) *set { return &t.sets[t.number(hash)] }

// cell is where a block's entry was: a set's number and a way. Whoever goes there
// looks whether it still is.
type cell uint32

// nowhere is the cell of what has no entry, or is not known to have one.
const nowhere = ^cell(0)

// seek has the processor fetch the blocks' sets side by side, notes where their
// entries are, and fetches those.
func (t *table) seek(blocks []uint64, cells []cell) {
	var x uint64
	for _, h := range blocks {
		s := t.set(whole(h))
		x ^= s.hashes[0] ^ uint64(s.last[ways-1])
	}
	for i, h := range blocks {
		h = whole(h)
		n := t.number(h)
		s := &t.sets[n]
		cells[i] = nowhere
		if way := s.place(h); way < ways {
			cells[i] = cell(n)*ways + cell(way)
			x ^= uint64(s.entries[way].slots[0].cache)
		}
	}
	t.touched ^= x
}

// revisit has the processor fetch what is at the cells, without a search.
func (t *table) revisit(cells []cell) {
	var x uint64
	for _, at := range cells {
		if n, way := at/ways, at%ways; uint64(n) < uint64(len(t.sets)) {
			s := &t.sets[n]
			x ^= s.hashes[way] ^ uint64(s.last[way]) ^ uint64(s.entries[way].slots[0].cache)
		}
	}
	t.touched ^= x
}

// whole makes sure that a hash is not the mark of a free entry.
func whole(hash uint64) uint64 {
	if hash == 0 {
		return 1
	}
	return hash
}

// place returns the first place in the set that has the hash, or ways. It does not
// stop where it finds it: nobody can predict where that will be.
func (s *set) place(hash uint64) int {
	found := ways
	for way := ways - 1; way >= 0; way-- {
		if s.hashes[way] == hash {
			found = way
		}
	}
	return found
}

// find returns the block's entry, or nil.
func (t *table) find(hash uint64) *entry {
	hash = whole(hash)
	s := t.set(hash)
	if way := s.place(hash); way < ways {
		return &s.entries[way]
	}
	return nil
}

// insert notes that the cache holds the block, which has that number in its
// prompt. It returns when that was noted last, or 0, and then whether this may be
// because there are too many endpoints to remember. The cell is where the block's
// entry may be, and then is.
func (t *table) insert(hash uint64, at *cell, number int, cache uint32, now stamp, since use) (had stamp, crowded bool) {
	hash = whole(hash)
	var victim *slot
	for level := 0; ; level++ {
		var s *set
		var way int
		if n := uint64(*at / ways); level == 0 && n < uint64(len(t.sets)) && t.sets[n].hashes[*at%ways] == hash {
			s, way = &t.sets[n], int(*at%ways)
		} else {
			n = t.number(hash)
			s = &t.sets[n]
			if way = s.place(hash); level == 0 {
				*at = cell(n)*ways + cell(way)
			}
		}
		if way == ways {
			if level > 0 && (victim.cache == 0 || !victim.stamp.within(crowdFor, uint32(now>>1))) {
				break
			}
			way = t.claim(s)
			if level == 0 {
				*at += cell(way) - ways
			}
			s.hashes[way], s.last[way] = hash, now
			s.entries[way] = entry{[slotsEach]slot{{cache, now}}}
			return 0, false
		}
		if now.newer(s.last[way]) {
			s.last[way] = now
		}
		e := &s.entries[way]
		for i := range e.slots {
			have := &e.slots[i]
			if have.cache == cache {
				had = have.stamp
				if have.stamp = now; !had.used(number).gone(since) { // what was displaced is no longer proved
					have.stamp |= had & 1
				}
				return had, false
			}
			switch {
			case victim == nil, have.cache == 0 && victim.cache != 0:
				victim = have
			case victim.cache != 0 && victim.stamp.newer(have.stamp):
				victim = have
			}
		}
		if !e.overflows() {
			break
		}
		if level == levelsMax-1 {
			crowded = victim.cache != 0 && victim.stamp.within(crowdFor, uint32(now>>1))
			break
		}
		hash = overflow(hash)
	}
	*victim = slot{cache, now}
	return 0, crowded
}

// remove forgets that the cache holds the block.
func (t *table) remove(hash uint64, cache uint32) {
	hash = whole(hash)
	for range levelsMax {
		s := t.set(hash)
		way := s.place(hash)
		if way == ways {
			return
		}
		e, left := &s.entries[way], false
		for i := range e.slots {
			if e.slots[i].cache == cache {
				e.slots[i].cache = 0 // and its stamp shows that it was taken once
			}
			left = left || e.slots[i].cache != 0
		}
		if e.overflows() {
			hash = overflow(hash)
			continue
		}
		if !left {
			s.hashes[way], s.last[way] = 0, 0
			t.used--
		}
		return
	}
}

// claim returns a free entry of the set, or the one used least recently.
func (t *table) claim(s *set) int {
	if way := s.place(0); way < ways {
		t.used++
		return way
	}
	way, oldest := 0, s.last[0]
	for i, last := range &s.last {
		if oldest.newer(last) {
			way, oldest = i, last
		}
	}
	return way
}

// refill has a table take in what some sets of another one hold, as far as it has
// room: the newest. What it has learned meanwhile is newer still.
func (t *table) refill(from []set) {
	for n := range from {
		old := &from[n]
		for i, hash := range old.hashes {
			if hash == 0 {
				continue
			}
			s := t.set(hash)
			if s.place(hash) < ways {
				continue
			}
			last, used := old.last[i], t.used
			way := t.claim(s)
			if t.used == used && s.last[way].newer(last) {
				continue // the set is full of newer ones
			}
			s.hashes[way], s.last[way], s.entries[way] = hash, last, old.entries[i]
		}
	}
}
