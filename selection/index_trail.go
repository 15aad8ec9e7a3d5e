package selection

// trails is where the blocks of the prompts that were sent last were put. A moment
// later each is learned once more, as computed, and to search for hundreds of blocks
// again would take about as long as the first time. Nobody gives a trail back, since
// Calls may fail: the oldest are written over. What is found along one is checked, so
// that an old trail costs time and no more. All of it is under the index's lock.
type trails struct {
	cells []cell // a ring
	next  trail
}

// trail is one prompt's: its first cell, counted from the first of all.
type trail uint64

// trailCells is how many blocks can be on the way from being sent to being computed,
// of four bytes each: of some 300 prompts of 400 KB, or of 3,000 of 32 KB.
const trailCells = 1 << 17

// begin returns the trail of a prompt of so many blocks.
func (ts *trails) begin(blocks int) trail {
	if ts.cells == nil {
		ts.cells = make([]cell, trailCells)
	}
	if left := trailCells - int(ts.next%trailCells); left < blocks {
		ts.next += trail(left) // in one piece
	}
	t := ts.next
	ts.next += trail(blocks)
	return t
}

// of returns the trail's cells, or nil when it is no longer there.
func (ts *trails) of(t trail, blocks int) []cell {
	if ts.next-t > trailCells {
		return nil
	}
	start := int(t % trailCells)
	return ts.cells[start : start+blocks]
}
