package baseline

import (
	"slices"
	"testing"
)

// A conversation stays where it is while there is room, conversations spread evenly,
// and all gateways agree.
func TestCHWBLKeepsConversations(t *testing.T) {
	a, b := strategy(t, "chwbl"), strategy(t, "chwbl")
	v := view(1000, make([]server, 8)...)
	seen := make([]int, 8)
	for key := range uint64(4000) {
		v.Ask.Key = key
		n := a.Pick(v)
		seen[n]++
		if again := a.Pick(v); again != n {
			t.Fatalf("conversation %d went to server %d, then to %d", key, n, again)
		}
		if other := b.Pick(v); other != n {
			t.Fatalf("conversation %d goes to server %d by one gateway, to %d by another", key, n, other)
		}
	}
	if slices.Min(seen) < 375 || slices.Max(seen) > 625 {
		t.Errorf("4000 conversations spread as %v over 8 servers", seen)
	}
}

// With 16 + 1 requests over 4 servers, 1.25 of the mean are 5.3: a server with 5 is
// taken and one with 6 passed over, always for the same other.
func TestCHWBLSpillsAboveTheBound(t *testing.T) {
	s := strategy(t, "chwbl")
	v := view(1000, make([]server, 4)...)
	home := s.Pick(v)
	set := func(atHome int) {
		rest := 16 - atHome
		for i := range v.Servers {
			v.Servers[i].Open = rest / 3
		}
		v.Servers[(home+1)%4].Open += rest % 3
		v.Servers[home].Open = atHome
	}
	set(5)
	if got := s.Pick(v); got != home {
		t.Errorf("left server %d with 5 of 16 requests", home)
	}
	set(6)
	spill := s.Pick(v)
	if spill == home {
		t.Errorf("stayed at server %d with 6 of 16 requests", home)
	}
	if again := s.Pick(v); again != spill {
		t.Errorf("spilled to server %d, then to %d", spill, again)
	}
	v.Servers[home].Open, v.Servers[spill].Open = 20, 20
	if got := s.Pick(v); got == home || got == spill {
		t.Errorf("took server %d, with %d requests", got, v.Servers[got].Open)
	}
}
