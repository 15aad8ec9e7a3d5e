package baseline

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// Dynamo counts a prompt's blocks until the request has ended, those that several
// requests share once.
func TestDynamoCountsActiveBlocks(t *testing.T) {
	s := strategy(t, "dynamo").(*dynamo)
	v := view(1100, server{}, server{})
	s.Pick(v)
	one := &virtual.Ask{ID: 1, Input: 1100, Block: 512, Pieces: []uint64{7, 8}}
	two := &virtual.Ask{ID: 2, Input: 1600, Block: 512, Pieces: []uint64{7, 9, 10}}
	for _, step := range []struct {
		about string
		do    func()
		want  int
	}{
		{"the first", func() { s.Placed(0, one, 1) }, 1100},
		{"a second that shares a piece", func() { s.Placed(0, two, 1) }, 1100 + 1600 - 512},
		{"first tokens", func() { s.FirstToken(1, one, 1); s.FirstToken(1, two, 1) }, 1100 + 1600 - 512},
		{"the first's end", func() { s.Ended(2, one, 1) }, 1600},
		{"the second's end", func() { s.Ended(3, two, 1) }, 0},
	} {
		step.do()
		if got := s.active[1].tokens; got != step.want {
			t.Errorf("after %s there are %d tokens, want %d", step.about, got, step.want)
		}
	}
	if n := len(s.active[1].uses); n != 0 {
		t.Errorf("%d pieces are left", n)
	}
	s.Placed(0, one, 0)
	if got := s.Pick(v); got != 1 {
		t.Errorf("took server %d, which has a prompt already", got)
	}
	v.Ask = &virtual.Ask{ID: 3, Input: 1100, Block: 512, Pieces: []uint64{7, 8}}
	v.Servers[0].Match = 1024
	if got := s.Pick(v); got != 0 {
		t.Errorf("took server %d, though the other has the same prompt cached and active", got)
	}
}

// Mooncake's Conductor adds up what waits, by how long each takes: one long prompt
// is more than two halves, because attention is a square. What is being computed
// counts less as time passes.
func TestMinTTFTEstimatesTheWait(t *testing.T) {
	s := strategy(t, "min_ttft").(*minTTFT)
	v := view(2000, server{}, server{})
	s.Pick(v)
	long := &virtual.Ask{ID: 1, Input: 60000}
	halves := []*virtual.Ask{{ID: 2, Input: 30000}, {ID: 3, Input: 30000}}
	s.Placed(0, long, 0)
	s.Placed(0, halves[0], 1)
	s.Placed(0, halves[1], 1)
	one, two := s.lines[0].wait(0), s.lines[1].wait(0)
	if one < two+time.Second {
		t.Errorf("60,000 tokens take %v in one prompt and %v in two", one, two)
	}
	if got := s.Pick(v); got != 1 {
		t.Errorf("took server %d, with %v to wait against %v", got, one, two)
	}
	if late := s.lines[0].wait(time.Second); late != one-time.Second {
		t.Errorf("of %v there are %v left after a second", one, late)
	}
	if late := s.lines[1].wait(time.Minute); late != two/2 {
		t.Errorf("of two like prompts that take %v there are %v left when one should be long done", two, late)
	}
	s.FirstToken(time.Second, long, 0)
	if got := s.lines[0].wait(time.Second); got != 0 {
		t.Errorf("%v to wait where nothing waits", got)
	}
	s.FirstToken(time.Second, halves[1], 1)
	if got := s.lines[1].wait(time.Second); got != two/2 {
		t.Errorf("%v to wait for one of two that took %v", got, two)
	}
}

// A cached prefix is cheaper than computing it, and dearer than a prompt without.
func TestPrefillPrices(t *testing.T) {
	p := &view(1, server{}).Servers[0].Profile
	cold, warm, short := prefill(p, 8000, 0), prefill(p, 1000, 7000), prefill(p, 1000, 0)
	if !(cold > warm && warm > short) {
		t.Errorf("8000 tokens take %v, with 7000 cached %v, and 1000 take %v", cold, warm, short)
	}
	if one, want := prefill(p, 1, 0), 7*time.Millisecond; one < want || one > want+50*time.Microsecond {
		t.Errorf("a single token takes %v, want the engine's floor of %v", one, want)
	}
}

// With perfect signals the Conductor knows which server is fast, and what other
// gateways have sent where: its own queue is then only a part.
func TestMinTTFTWithPerfectSignals(t *testing.T) {
	for _, tc := range []struct {
		about    string
		gateways int
		oracle   bool
		pending  int // on the fast server, by another gateway
		want     int
	}{
		{"its own queue is all there is", 1, true, 0, 1},
		{"others have sent a little", 2, true, 2000, 1},
		{"others have sent much", 2, true, 40000, 0},
		{"it cannot know what others sent", 2, false, 0, 1},
	} {
		v := view(8000, server{}, server{pending: tc.pending})
		v.Gateways, v.Oracle = tc.gateways, tc.oracle
		fast := &v.Servers[1].Profile.Costs
		fast.Token, fast.Pair = fast.Token/3, fast.Pair/3
		if got := strategy(t, "min_ttft").Pick(v); got != tc.want {
			t.Errorf("%s: took server %d, want %d", tc.about, got, tc.want)
		}
	}
}
