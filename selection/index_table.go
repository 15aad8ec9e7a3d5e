package selection

import (
	"math/bits"
	"time"
	"unsafe"
)

// The table is built like a processor's cache: a hash names a set of eight
// entries, and a full set gives up the entry that was used least recently. Its
// memory is three arrays allocated once, without pointers, so the budget holds
// exactly, the garbage collector has nothing to scan, and no lists have to be
// kept up. The price is that eviction is least-recently-used within each set,
// and over the whole only by statistics.
type table struct {
	hashes  [][ways]uint64 // 0 is a free entry; a set is one line of memory
	last    [][ways]stamp  // when each entry was last used
	entries [][ways]entry
	used    int
	touched uint64 // keeps touch from being compiled away
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
const setBytes = int64(ways) * int64(unsafe.Sizeof(uint64(0))+unsafe.Sizeof(stamp(0))+unsafe.Sizeof(entry{}))

// newTable returns a table that takes no more than the given bytes, and at
// least one set.
func newTable(bytes int64) table {
	n := max(1, bytes/setBytes)
	return table{hashes: make([][ways]uint64, n), last: make([][ways]stamp, n), entries: make([][ways]entry, n)}
}

func (t *table) empty() bool { return t.hashes == nil }

// set returns the number of the hash's set. Multiplying takes the hash's high
// bits and needs no power of two.
func (t *table) set(hash uint64) uint64 {
	hi, _ := bits.Mul64(hash, uint64(len(t.hashes)))
	return hi
}

// touch has the processor fetch the blocks' sets side by side.
func (t *table) touch(blocks []uint64) {
	var x uint64
	for _, h := range blocks {
		s := t.set(whole(h))
		x ^= t.hashes[s][0] ^ uint64(t.last[s][0]) ^ uint64(t.entries[s][0].slots[0].cache)
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

// place returns where the hash is in its set, or ways where it is not.
func (t *table) place(hash uint64) (set uint64, way int) {
	set = t.set(hash)
	for way = range ways {
		if t.hashes[set][way] == hash {
			return set, way
		}
	}
	return set, ways
}

// find returns the block's entry, or nil.
func (t *table) find(hash uint64) *entry {
	set, way := t.place(whole(hash))
	if way == ways {
		return nil
	}
	return &t.entries[set][way]
}

// insert notes that the cache holds the block, which has that number in its
// prompt. It returns when that was noted last, or 0, and then whether this may be
// because there are too many endpoints to remember.
func (t *table) insert(hash uint64, number int, cache uint32, s stamp, since use) (had stamp, crowded bool) {
	hash = whole(hash)
	var victim *slot
	for level := 0; ; level++ {
		set, way := t.place(hash)
		if way == ways {
			if level > 0 && (victim.cache == 0 || !victim.stamp.within(crowdFor, uint32(s>>1))) {
				break
			}
			t.add(set, hash, s).slots[0] = slot{cache, s}
			return 0, false
		}
		if s.newer(t.last[set][way]) {
			t.last[set][way] = s
		}
		e := &t.entries[set][way]
		for i := range e.slots {
			have := &e.slots[i]
			if have.cache == cache {
				had = have.stamp
				if have.stamp = s; !had.used(number).gone(since) { // what was displaced is no longer proved
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
			crowded = victim.cache != 0 && victim.stamp.within(crowdFor, uint32(s>>1))
			break
		}
		hash = overflow(hash)
	}
	*victim = slot{cache, s}
	return 0, crowded
}

// add makes an entry for the hash in its set, with all slots free.
func (t *table) add(set, hash uint64, s stamp) *entry {
	way := t.claim(set)
	t.hashes[set][way], t.last[set][way], t.entries[set][way] = hash, s, entry{}
	return &t.entries[set][way]
}

// remove forgets that the cache holds the block.
func (t *table) remove(hash uint64, cache uint32) {
	hash = whole(hash)
	for range levelsMax {
		set, way := t.place(hash)
		if way == ways {
			return
		}
		e, left := &t.entries[set][way], false
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
			t.hashes[set][way], t.last[set][way] = 0, 0
			t.used--
		}
		return
	}
}

// claim returns a free entry of the set, or the one used least recently.
func (t *table) claim(set uint64) (way int) {
	for way = range ways {
		if t.hashes[set][way] == 0 {
			t.used++
			return way
		}
	}
	last := &t.last[set]
	way = 0
	for i := 1; i < ways; i++ {
		if last[way].newer(last[i]) {
			way = i
		}
	}
	return way
}

// refill has a table take in what some sets of another one hold, as far as it has
// room: the newest. What it has learned meanwhile is newer still.
func (t *table) refill(from *table, start, end int) {
	for n := start; n < end; n++ {
		for i, hash := range from.hashes[n] {
			if hash == 0 {
				continue
			}
			set, way := t.place(hash)
			if way < ways {
				continue
			}
			last, used := from.last[n][i], t.used
			way = t.claim(set)
			if t.used == used && t.last[set][way].newer(last) {
				continue // the set is full of newer ones
			}
			t.hashes[set][way], t.last[set][way], t.entries[set][way] = hash, last, from.entries[n][i]
		}
	}
}
