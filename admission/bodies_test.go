package admission

import "testing"

// The longest body that is taken by itself is taken when nobody else has one:
// what is kept for small bodies would otherwise keep it out for ever.
func TestTheLongestBodyIsTakenWhenItIsAlone(t *testing.T) {
	const limit = 1 << 20
	var all bodies
	if !all.room(limit, limit) {
		t.Error("there is no room for it, though nothing is held")
	}
	long := share{of: &all, limit: limit}
	for range 16 {
		if !long.take(limit / 16) {
			t.Fatalf("it is stopped after %d bytes", long.held)
		}
	}
	if long.take(1) {
		t.Error("more than there is was given")
	}
	if all.held.Load() != limit {
		t.Errorf("%d bytes are held, want %d", all.held.Load(), limit)
	}
	long.set(0)

	small, second := share{of: &all, limit: limit}, share{of: &all, limit: limit}
	if !small.take(1) || !second.take(limit-limit/reserved-1) || second.take(1) || all.room(limit, limit) {
		t.Error("beside another an eighth is kept for small bodies")
	}
	if !small.take(smallBody - 1) {
		t.Error("and they do not get it")
	}
}
