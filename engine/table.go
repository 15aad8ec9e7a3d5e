package engine

import "math/bits"

// table finds the numbers of blocks by their ids. Numbers are small and dense,
// as those of the blocks of a memory are. It is a hash table with open
// addressing: looking ids up, adding them and taking them out again is most of
// what an engine does, and Go's map takes several times as long for each. Its
// zero value is an empty table.
type table struct {
	// slots hold the upper half of an id's hash and, below it, 1 more than the
	// number, so that an empty slot is zero. Whole ids would double what the
	// processor's caches have to hold.
	slots  []uint64
	ids    []uint64 // by number
	shift  uint8    // 64 less the binary logarithm of the number of slots
	length int
}

// minSlots is the size of the smallest table, a power of two.
const minSlots = 16

// newTable returns a table that holds hint ids before it has to grow.
func newTable(hint int) table {
	t := table{ids: make([]uint64, 0, hint)}
	t.resize(max(minSlots, 1<<bits.Len(uint(hint+hint/2))))
	return t
}

// hash multiplies by 2^64 divided by the golden ratio. That spreads ids that
// differ in their low bits only, as made-up ids do, over the upper bits, which
// say where the search for an id starts.
func hash(id uint64) uint64 { return id * 0x9e3779b97f4a7c15 }

// number and hasHash read a slot.
func number(slot uint64) int32           { return int32(uint32(slot) - 1) }
func hasHash(slot uint64, h uint64) bool { return (slot^h)>>32 == 0 }

// get returns the number under an id and whether there is one.
func (t *table) get(id uint64) (int32, bool) {
	i := t.find(id)
	if i < 0 || t.slots[i] == 0 {
		return 0, false
	}
	return number(t.slots[i]), true
}

// find returns the slot of an id, or if there is none the empty one where it
// belongs, or -1 if there are no slots yet.
func (t *table) find(id uint64) int {
	if len(t.slots) == 0 {
		return -1
	}
	h := hash(id)
	mask := uint64(len(t.slots) - 1)
	for i := h >> t.shift; ; i++ {
		slot := t.slots[i&mask]
		if slot == 0 || hasHash(slot, h) && t.ids[number(slot)] == id {
			return int(i & mask)
		}
	}
}

// add puts a number, which is not negative and under no other id, under an id
// unless there is one already, and reports whether it did.
func (t *table) add(id uint64, n int32) bool {
	// Two thirds full is as far as chains of taken slots stay short.
	if 3*(t.length+1) > 2*len(t.slots) {
		t.resize(max(minSlots, 2*len(t.slots)))
	}
	i := t.find(id)
	if t.slots[i] != 0 {
		return false
	}
	for len(t.ids) <= int(n) {
		t.ids = append(t.ids, 0)
	}
	t.ids[n] = id
	t.slots[i] = hash(id)>>32<<32 | uint64(n+1)
	t.length++
	return true
}

// remove takes an id out, if it is there. The entries behind it move up where
// they may, so that no search ends at the gap too early.
func (t *table) remove(id uint64) {
	gap := t.find(id)
	if gap < 0 || t.slots[gap] == 0 {
		return
	}
	mask := len(t.slots) - 1
	for i := (gap + 1) & mask; t.slots[i] != 0; i = (i + 1) & mask {
		// It may move if the gap is not before its home, going round.
		if (i-int(t.slots[i]>>t.shift))&mask >= (i-gap)&mask {
			t.slots[gap] = t.slots[i]
			gap = i
		}
	}
	t.slots[gap] = 0
	t.length--
}

// resize needs the slots alone, since the upper half of the hash says where an
// entry belongs in tables of up to 2^32 slots.
func (t *table) resize(size int) {
	old := t.slots
	t.slots = make([]uint64, size)
	t.shift = uint8(64 - bits.TrailingZeros(uint(size)))
	mask := size - 1
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		i := int(slot >> t.shift)
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = slot
	}
}
