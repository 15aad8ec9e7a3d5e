package baseline

import (
	"slices"
	"testing"
)

// What each rule makes of a view, in numbers that can be checked by hand.
func TestPick(t *testing.T) {
	for _, tc := range []struct {
		rule, about string
		input       int
		servers     []server
		oracle      bool
		want        int
	}{
		{
			"least_requests", "the fewest open, whatever is cached", 1000,
			[]server{{open: 3, match: 900}, {open: 1}, {open: 2}},
			false, 1,
		},
		{
			"p2c", "the less loaded of the only two", 1000,
			[]server{{open: 3}, {open: 1}},
			false, 1,
		},
		{
			"least_tokens", "the fewest tokens, not requests", 1000,
			[]server{{open: 1, pending: 9000}, {open: 5, pending: 2000}, {open: 2, pending: 3000}},
			false, 1,
		},
		{
			"lpwl", "2000 + 100 are fewer than 1500 + 1000", 1000,
			[]server{{pending: 2000, match: 900}, {pending: 1500}},
			false, 0,
		},
		{
			"lpwl", "2000 + 100 are more than 1000 + 1000", 1000,
			[]server{{pending: 2000, match: 900}, {pending: 1000}},
			false, 1,
		},
		{
			"lmetric", "1590 x 5 is less than 2000 x 4", 1000,
			[]server{{open: 3, pending: 1000}, {open: 4, pending: 590}},
			false, 1,
		},
		{
			"lmetric", "1600 x 5 is not less than 1990 x 4", 1000,
			[]server{{open: 3, pending: 990}, {open: 4, pending: 600}},
			false, 0,
		},
		{
			"sglang", "700 of 1000 are above the threshold", 1000,
			[]server{{open: 9}, {open: 20, match: 700}, {open: 3, match: 600}},
			false, 1,
		},
		{
			"sglang", "500 of 1000 are not above it: the least loaded", 1000,
			[]server{{open: 9}, {open: 20, match: 500}, {open: 3}},
			false, 2,
		},
		{
			"sglang", "33 apart, and 40 is more than 1.1 x 7: out of balance", 1000,
			[]server{{open: 40, match: 999}, {open: 7}},
			false, 1,
		},
		{
			"sglang", "32 apart is not more than 32", 1000,
			[]server{{open: 39, match: 999}, {open: 7}},
			false, 0,
		},
		{
			"sglang", "40 apart, but 440 is not more than 1.1 x 400", 1000,
			[]server{{open: 440, match: 999}, {open: 400}},
			false, 0,
		},
		{
			"llmd", "3 x .5 + 2 x 0 is less than 2 x 1", 1024,
			[]server{{match: 512, waiting: 4}, {waiting: 1}},
			false, 1,
		},
		{
			"llmd", "3 x .75 + 2 x 0 is more than 2 x 1", 1024,
			[]server{{match: 768, waiting: 4}, {waiting: 1}},
			false, 0,
		},
		{
			"llmd", "a queue in the middle has half of 2, and .2 of memory are .4", 1024,
			[]server{{waiting: 4, kv: .1}, {waiting: 2, kv: .3}, {waiting: 0, kv: .9}},
			false, 1,
		},
		{
			"llmd", "queues that are alike do not count, memory does", 1024,
			[]server{{waiting: 4, kv: .5}, {waiting: 4, kv: .4}},
			false, 1,
		},
		{
			"llmd", "of 40,000 tokens the index knows 4096, and those whole", 40000,
			[]server{{match: 4096, waiting: 1}, {waiting: 0}},
			false, 0,
		},
		{
			"llmd", "the precise index knows that they are a tenth", 40000,
			[]server{{match: 4096, waiting: 1}, {waiting: 0}},
			true, 1,
		},
		{
			"aibrix", "the longest match within mean 4 and sigma 2.5", 1000,
			[]server{{open: 6, match: 500}, {open: 7, match: 900}, {open: 2, match: 100}, {open: 1}},
			false, 0,
		},
		{
			"aibrix", "of equal matches the less loaded", 1000,
			[]server{{open: 4, match: 500}, {open: 3, match: 500}, {open: 4}},
			false, 1,
		},
		{
			"aibrix", "the only match has too many: the least loaded", 1000,
			[]server{{open: 4, match: 900}, {open: 1}, {open: 2}},
			false, 1,
		},
		{
			"aibrix", "9 apart: the least loaded", 1000,
			[]server{{open: 3, match: 900}, {open: 1}, {open: 10}, {open: 10}},
			false, 1,
		},
		{
			"dynamo", "what is cached comes off once: 2000 + 100 against 500 + 1000", 1000,
			[]server{{pending: 2000, match: 900}, {pending: 500}},
			false, 1,
		},
		{
			"dynamo", "1400 + 100 against 501 + 1000", 1000,
			[]server{{pending: 1400, match: 900}, {pending: 501}},
			false, 0,
		},
		{
			"min_ttft", "no queue anywhere: where most is cached", 8000,
			[]server{{match: 1000}, {match: 7000}, {}},
			false, 1,
		},
	} {
		t.Run(tc.rule+"/"+tc.about, func(t *testing.T) {
			v := view(tc.input, tc.servers...)
			v.Oracle = tc.oracle
			if got := strategy(t, tc.rule).Pick(v); got != tc.want {
				t.Errorf("took server %d, want %d of %+v", got, tc.want, tc.servers)
			}
		})
	}
}

// A pool of one has no choice, and before anything is known no rule trips over what
// is missing.
func TestFirstPick(t *testing.T) {
	for _, name := range Names() {
		for _, oracle := range []bool{false, true} {
			v := view(5000, unknown(1)...)
			v.Oracle = oracle
			if got := strategy(t, name).Pick(v); got != 0 {
				t.Errorf("%s: took server %d of one", name, got)
			}
			v = view(1, unknown(3)...)
			v.Oracle = oracle
			if got := strategy(t, name).Pick(v); got < 0 || got > 2 {
				t.Errorf("%s: took server %d of three", name, got)
			}
		}
	}
}

// Where servers are alike, each gets some of what comes: a burst that finds the same
// view does not go to the first.
func TestTies(t *testing.T) {
	for _, name := range Names() {
		s := strategy(t, name)
		v := view(3000, unknown(4)...)
		seen := make([]int, 4)
		for i := range 400 {
			v.Ask.ID, v.Ask.Key = uint64(i), scramble(uint64(i))
			seen[s.Pick(v)]++
		}
		if slices.Min(seen) < 50 {
			t.Errorf("%s: of 400 like requests four like servers got %v", name, seen)
		}
	}
}

func TestRoundRobinTakesTurns(t *testing.T) {
	s, v := strategy(t, "round_robin"), view(10, server{}, server{}, server{})
	var got []int
	for range 7 {
		got = append(got, s.Pick(v))
	}
	if want := []int{0, 1, 2, 0, 1, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("took %v, want %v", got, want)
	}
}

// Of two choices the worst server is never taken, of three the middle one is: it
// wins against the worst.
func TestTwoChoicesNeverTakeTheWorst(t *testing.T) {
	s, v := strategy(t, "p2c"), view(10, server{open: 5}, server{open: 2}, server{open: 3})
	seen := make([]int, 3)
	for range 300 {
		seen[s.Pick(v)]++
	}
	if seen[0] != 0 || seen[1] < 150 || seen[2] < 50 {
		t.Errorf("servers with 5, 2 and 3 open got %v of 300", seen)
	}
}
