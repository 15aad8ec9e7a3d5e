package llmlb

import "testing"

// A prompt ten times as long is more than ten times the work, and what is cached
// before it makes each token dearer; a short one is its tokens.
func TestEffortGrowsFasterThanThePrompt(t *testing.T) {
	for _, tc := range []struct {
		work Work
		want int
	}{
		{Work{Uncached: 100}, 100},
		{Work{Uncached: 4_000}, 4_400},
		{Work{Uncached: 40_000}, 80_000},
		{Work{Uncached: 4_000, Cached: 36_000}, 4_000 + 7_600},
		{Work{Output: 500}, 0},
	} {
		if got := tc.work.Effort(); got != tc.want {
			t.Errorf("%+v is an effort of %d, want %d", tc.work, got, tc.want)
		}
	}
	whole := Work{Uncached: 40_000}.Effort()
	parts := Work{Uncached: 36_000}.Effort() + Work{Uncached: 4_000, Cached: 36_000}.Effort()
	if whole != parts {
		t.Errorf("computed in two parts it is %d, at once %d: want as much", parts, whole)
	}
}
