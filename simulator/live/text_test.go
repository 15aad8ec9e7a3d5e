package live

import (
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// What a trace says of its prompts is so of the texts that are made of it: their
// lengths, and how much two of them share. What the gateway makes of them agrees.
func TestTextSaysWhatTheTraceSays(t *testing.T) {
	rows := &trace.Trace{Block: 512, Requests: []trace.Request{
		{Input: 1300, Output: 7, Blocks: []uint64{1, 2, 3}},
		{Input: 1536, Output: 7, Blocks: []uint64{1, 2, 3}},
		{Input: 1300, Output: 7, Blocks: []uint64{1, 2, 4}},
		{Input: 1300, Output: 7, Blocks: []uint64{5, 2, 3}},
		{Input: 900, Output: 7},
		{Input: 900, Output: 7},
	}}
	for _, tc := range []struct {
		name   string
		a, b   int
		shared int // tokens
	}{
		{"the same as far as the shorter goes", 0, 1, 1300},
		{"another third piece", 0, 2, 1024},
		{"another beginning", 0, 3, 0},
		{"nothing known of prefixes", 4, 5, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := features(t, rows, tc.a), features(t, rows, tc.b)
			if want := rows.Requests[tc.a].Input * tokenBytes; len(text(rows, tc.a)) != want {
				t.Errorf("%d bytes of text, want %d", len(text(rows, tc.a)), want)
			}
			same := 0
			for same < min(len(a.Blocks), len(b.Blocks)) && a.Blocks[same] == b.Blocks[same] {
				same++
			}
			most := tc.shared * tokenBytes
			if covered := llmlb.BlockEnd(same); covered > most || covered < most-llmlb.LongBlock {
				t.Errorf("%d bytes of the prompts are shared, want %d but for a block", covered, most)
			}
			if (a.Key == b.Key) != (tc.shared >= 1024) {
				t.Errorf("one conversation: %v, with %d tokens shared", a.Key == b.Key, tc.shared)
			}
		})
	}
}

// features is what the gateway reads of the row's request.
func features(t *testing.T, rows *trace.Trace, row int) llmlb.Features {
	t.Helper()
	f, err := request.Read(request.Completions, body(rows, row), &request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}
