package virtual

import (
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// Conversations that share a long system prompt have keys of their own, the same in
// every turn, as they have before a real gateway. They once had one key together, so
// that eight gateways, which find each other's prompts by it, found a third.
func TestConversationsAreToldApart(t *testing.T) {
	tr, err := trace.Multiturn(trace.MultiturnOptions{Conversations: 50, System: 3000})
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]uint64{}
	seen := map[uint64]bool{}
	for i := range tr.Requests {
		r := &tr.Requests[i]
		key := row{r, tr.Block}.features().Key
		if before, later := keys[r.Client]; later != (r.Follows > 0) || later && key != before {
			t.Fatalf("request %d: the key of %s has changed", i, r.Client)
		}
		keys[r.Client], seen[key] = key, true
	}
	if len(seen) != 50 {
		t.Errorf("50 conversations have %d keys", len(seen))
	}
}

// Where the trace does not tell, conversations are told apart by their first 1,024
// tokens, in pieces of whatever length, or by all of a prompt that is shorter.
func TestRowsAreToldApartByTheirBeginnings(t *testing.T) {
	ids := make([]uint64, 200)
	for i := range ids {
		ids[i] = uint64(i) + 1
	}
	for _, tc := range []struct{ block, input, pieces int }{
		{512, 5000, 2}, {512, 600, 2}, {512, 300, 1}, {16, 3000, 64}, {16, 100, 7}, {4096, 5000, 1},
	} {
		r := row{&trace.Request{Input: tc.input, Output: 1, Blocks: ids}, tc.block}
		if got := r.key(); got != uint64(tc.pieces) {
			t.Errorf("%d tokens in pieces of %d are told apart by %d of them, want %d", tc.input, tc.block, got, tc.pieces)
		}
	}
}
