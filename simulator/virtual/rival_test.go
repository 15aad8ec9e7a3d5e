package virtual

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// spy sends everything to the first server, and writes down what it is told.
type spy struct {
	seen     []Server // the first server, at each pick
	keys     []uint64
	told     []string
	perAsk   int
	gateways int
}

func (s *spy) Pick(v *View) int {
	s.seen, s.keys, s.gateways = append(s.seen, v.Servers[0]), append(s.keys, v.Ask.Key), v.Gateways
	return 0
}

func (s *spy) Remembers() (perServer, perPrompt int) { return 0, s.perAsk }

func (s *spy) tell(what string, now time.Duration, r *Ask) {
	s.told = append(s.told, fmt.Sprintf("%s %d at %v", what, r.ID, now.Round(time.Second)))
}

func (s *spy) Placed(now time.Duration, r *Ask, _ int)     { s.tell("placed", now, r) }
func (s *spy) FirstToken(now time.Duration, r *Ask, _ int) { s.tell("first token", now, r) }
func (s *spy) Ended(now time.Duration, r *Ask, _ int)      { s.tell("ended", now, r) }

// watch has the spy see the requests, which it sends to one 8b-h100.
func (s *spy) watch(t *testing.T, oracle bool, block int, requests ...trace.Request) {
	t.Helper()
	cfg, _ := engine.Preset("8b-h100")
	_, err := Run(Config{
		Engines: []engine.Config{cfg}, Rule: func() Strategy { return s }, Oracle: oracle, Overhead: engine.APIOverhead, Seed: 1,
	}, &trace.Trace{Block: block, Requests: requests})
	if err != nil {
		t.Fatal(err)
	}
}

func ids(from, n uint64) []uint64 {
	var ids []uint64
	for i := range n {
		ids = append(ids, from+i)
	}
	return ids
}

// A conversation's key is what its prompt's first two pieces say, also if the second
// is not full; a prompt of which nothing is known has a key of its own.
func TestKeysTellConversationsApart(t *testing.T) {
	s := new(spy)
	s.watch(t, false, 512,
		trace.Request{Input: 4 * 512, Output: 1, Blocks: ids(1, 4)},
		trace.Request{Input: 2*512 + 100, Output: 1, Blocks: []uint64{1, 2, 9}},
		trace.Request{Input: 2 * 512, Output: 1, Blocks: []uint64{1, 8}},
		trace.Request{Input: 700, Output: 1, Blocks: []uint64{1, 7}},
		trace.Request{Input: 700, Output: 1, Blocks: []uint64{1, 6}},
		trace.Request{Input: 700, Output: 1},
		trace.Request{Input: 700, Output: 1},
	)
	if s.keys[0] != s.keys[1] {
		t.Error("two turns of a conversation have different keys")
	}
	keys := slices.Clone(s.keys[1:])
	slices.Sort(keys)
	if n := len(slices.Compact(keys)); n != 6 {
		t.Errorf("six conversations have %d keys", n)
	}
}

// What is on its way through an engine's HTTP front is known to who has perfect
// signals: of three requests at one moment the third finds two before it, the second
// of them cheap because most of it is cached.
func TestOracleSeesWhatIsOnItsWay(t *testing.T) {
	s := new(spy)
	s.watch(t, true, 512,
		trace.Request{Input: 16 * 512, Output: 1, Blocks: ids(1, 16)},
		trace.Request{At: time.Minute, Input: 4 * 512, Output: 1, Blocks: ids(100, 4)},
		trace.Request{At: time.Minute, Input: 17 * 512, Output: 1, Blocks: append(ids(1, 16), 50)},
		trace.Request{At: time.Minute, Input: 512, Output: 1, Blocks: ids(200, 1)},
	)
	if got := s.seen[2].Match; got != 16*512 {
		t.Errorf("%d tokens of the second turn are cached, want %d", got, 16*512)
	}
	last := s.seen[3]
	if want := 5 * 512; last.Pending != want || last.Open != 2 || last.Prefilling != 2 || last.Waiting != 2 {
		t.Errorf("saw %d tokens, %d open, %d without a token, %d waiting; want %d tokens and 2 of each",
			last.Pending, last.Open, last.Prefilling, last.Waiting, want)
	}
}

// A request that no server can hold is over at once. A strategy that counts what has
// no first token is told so too.
func TestFollowerIsToldOfRefusals(t *testing.T) {
	s := new(spy)
	s.watch(t, false, 0,
		trace.Request{Input: 10_000_000, Output: 1},
		trace.Request{At: 3 * time.Second, Input: 100, Output: 1},
	)
	want := []string{
		"placed 0 at 0s", "first token 0 at 0s", "ended 0 at 0s",
		"placed 1 at 3s", "first token 1 at 3s", "ended 1 at 3s",
	}
	if !slices.Equal(s.told, want) {
		t.Errorf("was told %q, want %q", s.told, want)
	}
	if last := s.seen[1]; last.Open != 0 || last.Prefilling != 0 || last.Pending != 0 {
		t.Errorf("the refused request still counts: %+v", last)
	}
}

// A strategy that looks at no more than so much of each prompt knows no more of it.
func TestSizedKnowsTheHead(t *testing.T) {
	for _, tc := range []struct{ perAsk, want int }{{0, 8 * 512}, {3 * 512, 3 * 512}, {100, 512}} {
		s := &spy{perAsk: tc.perAsk}
		s.watch(t, false, 512,
			trace.Request{Input: 8 * 512, Output: 1, Blocks: ids(1, 8)},
			trace.Request{At: time.Minute, Input: 9 * 512, Output: 1, Blocks: ids(1, 9)},
		)
		if got := s.seen[1].Match; got != tc.want {
			t.Errorf("looking at %d tokens of a prompt, knew %d, want %d", tc.perAsk, got, tc.want)
		}
	}
}
