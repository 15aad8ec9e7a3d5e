package engine

import "math/bits"

// table finds the numbers of blocks by their ids. Numbers are small and dense,
// as those of the blocks of a memory are. It is a hash table with open
// addressing: looking ids up, adding them and taking them out again is most of
// what an engine does, and Go's map takes several times as long for each. Its
// zero value is an empty table.
type table struct {
	slots   []slotEntry
	entries []entry // by number
	shift   uint8   // 64 less the binary logarithm of the number of slots
	length  int
}

// slotEntry is one slot of the hash table; number is 1 more than the block's,
// so that an empty slot is all zeros whatever the ids are.
type slotEntry struct {
	id     uint64
	number uint32
}

// entry tells whether a number is in the table, and under which id.
type entry struct {
	id      uint64
	present bool
}

// minSlots is the size of the smallest table, a power of two.
const minSlots = 16

// newTable returns a table for the numbers below n that need not grow.
func newTable(n int) table {
	t := table{entries: make([]entry, n)}
	t.resize(max(minSlots, 1<<bits.Len(uint(n+n/2))))
	return t
}

// home is the slot where the search for an id starts. Multiplying by 2^64
// divided by the golden ratio spreads ids that differ in their low bits only,
// as made-up ids do, over the upper bits.
func (t *table) home(id uint64) uint64 {
	return id * 0x9e3779b97f4a7c15 >> t.shift
}

// get returns the number under an id and whether there is one.
func (t *table) get(id uint64) (int32, bool) {
	if t.length == 0 {
		return none, false
	}
	mask := uint64(len(t.slots) - 1)
	for i := t.home(id); ; i++ {
		switch e := &t.slots[i&mask]; {
		case e.number == 0:
			return none, false
		case e.id == id:
			return int32(e.number - 1), true
		}
	}
}

// has reports whether there is an id with this number.
func (t *table) has(n int32) bool { return t.entries[n].present }

// add puts a number that is not in the table under an id unless there is one
// already, and reports whether it did.
func (t *table) add(id uint64, n int32) bool {
	// Beyond three quarters full, chains of taken slots become long.
	if 4*(t.length+1) > 3*len(t.slots) {
		t.resize(max(minSlots, 2*len(t.slots)))
	}
	mask := uint64(len(t.slots) - 1)
	i := t.home(id)
	for ; t.slots[i&mask].number != 0; i++ {
		if t.slots[i&mask].id == id {
			return false
		}
	}
	t.slots[i&mask] = slotEntry{id, uint32(n) + 1}
	for len(t.entries) <= int(n) {
		t.entries = append(t.entries, entry{})
	}
	t.entries[n] = entry{id, true}
	t.length++
	return true
}

// remove takes a number that is in the table out of it. The entries behind its
// slot move up where they may, so that no search ends at the gap too early.
func (t *table) remove(n int32) {
	t.entries[n].present = false
	mask := uint64(len(t.slots) - 1)
	gap := t.home(t.entries[n].id)
	for t.slots[gap].number != uint32(n)+1 {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; t.slots[i].number != 0; i = (i + 1) & mask {
		// It may move if the gap is not before its home, going round.
		if (i-t.home(t.slots[i].id))&mask >= (i-gap)&mask {
			t.slots[gap] = t.slots[i]
			gap = i
		}
	}
	t.slots[gap] = slotEntry{}
	t.length--
}

func (t *table) resize(size int) {
	old := t.slots
	t.slots = make([]slotEntry, size)
	t.shift = uint8(64 - bits.TrailingZeros(uint(size)))
	mask := uint64(size - 1)
	for _, e := range old {
		if e.number == 0 {
			continue
		}
		i := t.home(e.id)
		for t.slots[i].number != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = e
	}
}
