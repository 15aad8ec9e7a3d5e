package bound

import (
	"math"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

func TestHits(t *testing.T) {
	for _, test := range []struct {
		name     string
		requests []trace.Request
		want     float64
	}{
		{"nothing", nil, 0},
		{"prompts that are like no other", []trace.Request{{Input: 20, Output: 1}, {Input: 20, Output: 1}}, 0},
		{
			"a prompt that begins like an earlier one",
			[]trace.Request{
				{Input: 30, Output: 1, Blocks: []uint64{1, 2, 3}},
				{Input: 30, Output: 1, Blocks: []uint64{1, 2, 4}},
			},
			20. / 60,
		},
		{
			"the same prompt again computes its last token",
			[]trace.Request{
				{Input: 30, Output: 1, Blocks: []uint64{1, 2, 3}},
				{Input: 30, Output: 1, Blocks: []uint64{1, 2, 3}},
			},
			29. / 60,
		},
		{
			"what is after a difference is not found",
			[]trace.Request{
				{Input: 30, Output: 1, Blocks: []uint64{1, 2, 3}},
				{Input: 30, Output: 1, Blocks: []uint64{4, 2, 3}},
			},
			0,
		},
		{
			"a conversation's next turn finds prompt and answer",
			[]trace.Request{
				{Input: 12, Output: 16, Blocks: []uint64{1, 2, 3}},
				{Input: 40, Output: 1, Blocks: []uint64{1, 2, 3, 4}},
			},
			28. / 52,
		},
		{
			"a longer piece gives a shorter one all it asks for",
			[]trace.Request{
				{Input: 20, Output: 1, Blocks: []uint64{1, 2}},
				{Input: 14, Output: 1, Blocks: []uint64{1, 2}},
			},
			13. / 34,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Hits(&trace.Trace{Block: 10, Requests: test.requests})
			if math.Abs(got-test.want) > 1e-12 {
				t.Errorf("hit ratio of %v, want %v", got, test.want)
			}
		})
	}
}

// In a closed trace nobody knows which of two conversations comes first, so each
// may find what both have. Its own next turn never comes before a turn.
func TestSoloOfConversationsAllowsForAnyOrder(t *testing.T) {
	tr := &trace.Trace{Block: 16, Requests: []trace.Request{
		{Input: 48, Output: 1, Blocks: []uint64{1, 2, 3}},
		{Input: 64, Output: 1, Blocks: []uint64{1, 2, 3, 4}, Follows: 1},
		{Input: 48, Output: 1, Blocks: []uint64{1, 5, 6}},
		{Input: 64, Output: 1, Blocks: []uint64{1, 5, 6, 7}, Follows: 1},
	}}
	want := []int{16, 48, 16, 48}
	for i, s := range Solo(tr, preset(t, "8b-h100")) {
		if s.Found != want[i] {
			t.Errorf("request %d may find %d tokens, want %d", i, s.Found, want[i])
		}
	}
	tr.Requests[1].Follows, tr.Requests[3].Follows = 0, 0
	if got := Solo(tr, preset(t, "8b-h100"))[0].Found; got != 0 {
		t.Errorf("the first request of an open trace may find %d tokens, want none", got)
	}
}
