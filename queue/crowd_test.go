package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// leaver is a guest that can be told to leave.
func (s *site) leaver(name string, c *Class, tenant string, tokens int, left *[]string) *guest {
	g := s.guest(name, c, tenant, tokens)
	g.Out = func(why Entry) { *left = append(*left, fmt.Sprint(name, " ", why)) }
	return g
}

// A client that fills the queue, and asks again at once whenever it is refused,
// leaves another tenant its share.
func TestAFullQueueIsSharedToo(t *testing.T) {
	for _, bounds := range []Bounds{{Calls: 100}, {Calls: 1000, Tokens: 100_000}} {
		s := newSite(t, 1)
		served := map[string]int{}
		var left []string
		flood := func() {
			for e := Waiting; e != FullCalls && e != FullTokens; {
				e = s.queue.Push(&s.leaver("flood", interactive, "flood", 1000, &left).Waiter, bounds, s.now)
			}
		}
		for range 500 {
			flood()
			if s.queue.Full(interactive, "other", bounds) {
				t.Fatalf("%+v: the other tenant is refused before its body", bounds)
			}
			if e := s.queue.Push(&s.leaver("other", interactive, "other", 1000, &left).Waiter, bounds, s.now); e != Waiting {
				t.Fatalf("%+v: the other tenant's entry is %d", bounds, e)
			}
			flood()
			s.now = s.now.Add(100 * time.Millisecond)
			for _, g := range s.placed {
				served[g.Tenant]++
				s.queue.Settle(&g.Waiter, 1000)
			}
			all := s.placed
			s.placed = nil
			for _, g := range all {
				s.end(g)
			}
			s.check()
			if calls, tokens := s.queue.calls, s.queue.Status(s.now)[0].Tokens; calls > bounds.Calls || bounds.Tokens > 0 && tokens > bounds.Tokens {
				t.Fatalf("%+v: %d calls of %d tokens wait", bounds, calls, tokens)
			}
			if n := s.queue.class(interactive).tenants["other"].waiting; n > 45 {
				break // it has its half of the queue, and would be refused as the flood is
			}
		}
		if n := served["other"]; n < served["flood"]*9/10 {
			t.Errorf("%+v: served %v", bounds, served)
		}
	}
}

// Who has to leave a full queue: the newest of whoever has the most, if that keeps
// it no worse off than the one that comes.
func TestWhoLeavesAFullQueue(t *testing.T) {
	urgent := &Class{Name: "urgent", Rank: -1}
	type one struct {
		class  *Class
		tenant string
		tokens int
	}
	a, b, c := one{interactive, "a", 100}, one{interactive, "b", 100}, one{interactive, "c", 100}
	for _, test := range []struct {
		name   string
		wait   []one
		bounds Bounds
		comes  one
		entry  Entry
		left   string
	}{
		{"there is room", []one{a, a}, Bounds{Calls: 3}, b, Waiting, "[]"},
		{"its own queue", []one{a, a, a}, Bounds{Calls: 3}, a, FullCalls, "[]"},
		{"the newest of the most", []one{a, b, a, a, b}, Bounds{Calls: 5}, c, Waiting, "[3 3]"},
		{"as many as the most", []one{a, b, a, b}, Bounds{Calls: 4}, b, FullCalls, "[]"},
		{"to be even", []one{a, b, a, a}, Bounds{Calls: 4}, b, Waiting, "[3 3]"},
		{"not to change places", []one{a, a, b}, Bounds{Calls: 3}, b, FullCalls, "[]"},
		{"of its class alone", []one{{urgent, "a", 100}, {urgent, "a", 100}}, Bounds{Calls: 2}, b, FullCalls, "[]"},
		{"also where a higher one has more", []one{{urgent, "a", 100}, {urgent, "a", 100}, {urgent, "a", 100}, a, a}, Bounds{Calls: 5}, b, Waiting, "[4 3]"},
		{"a lower one is not in its way", []one{{background, "a", 100}, {background, "a", 100}}, Bounds{Calls: 2}, b, Waiting, "[]"},
		{"none may wait", []one{a, a, a}, Bounds{}, b, FullCalls, "[]"},
		{"tokens", []one{a, a, a, b}, Bounds{Calls: 9, Tokens: 400}, b, Waiting, "[2 4]"},
		{"as many tokens as it takes", []one{a, a, a, a, a}, Bounds{Calls: 9, Tokens: 500}, one{interactive, "b", 200}, Waiting, "[4 4 3 4]"},
		{"more than its part", []one{a, a, a, a, a}, Bounds{Calls: 9, Tokens: 500}, one{interactive, "b", 300}, FullTokens, "[]"},
		{"a long prompt that is alone", []one{{interactive, "a", 5000}}, Bounds{Calls: 9, Tokens: 500}, b, FullTokens, "[]"},
		{"both bounds", []one{a, a, a, a, {interactive, "d", 900}, {interactive, "d", 900}}, Bounds{Calls: 6, Tokens: 2200}, b, Waiting, "[3 3]"},
		{"one of each", []one{{interactive, "d", 900}, {interactive, "d", 900}, a, a, a, a}, Bounds{Calls: 6, Tokens: 2150}, one{interactive, "b", 200}, Waiting, "[5 3 1 4]"},
	} {
		s := newSite(t, 0)
		left := []string{}
		for i, o := range test.wait {
			s.waits(s.leaver(fmt.Sprint(i), o.class, o.tenant, o.tokens, &left))
		}
		full := s.queue.Full(test.comes.class, test.comes.tenant, test.bounds)
		g := s.leaver("new", test.comes.class, test.comes.tenant, test.comes.tokens, &left)
		entry := s.queue.Push(&g.Waiter, test.bounds, s.now)
		if got := fmt.Sprint(left); entry != test.entry || got != test.left {
			t.Errorf("%s: entry %d, and %s left; want %d and %s", test.name, entry, got, test.entry, test.left)
		}
		if full && entry == Waiting {
			t.Errorf("%s: it is refused before its body", test.name)
		}
		if !full && entry == FullCalls {
			t.Errorf("%s: its body is read to refuse it", test.name)
		}
		s.check()
	}
}

// One that nobody could tell stays, and so does one that has been sent before as
// long as newer ones can leave.
func TestWhoStaysInAFullQueue(t *testing.T) {
	s := newSite(t, 1)
	left := []string{}
	back := s.leaver("back", interactive, "a", 100, &left)
	s.push(back)
	s.waits(s.leaver("old", interactive, "a", 100, &left))
	s.ends[0].slots, s.ends[0].open, back.at = 0, 0, nil
	s.waits(back, s.guest("deaf", interactive, "a", 100))
	if e := s.queue.Push(&s.leaver("b", interactive, "b", 100, &left).Waiter, Bounds{Calls: 3}, s.now); e != Waiting || fmt.Sprint(left) != "[old 3]" {
		t.Errorf("entry %d, and %v left", e, left)
	}
	s.check()
}

// Whoever leaves may have kept those behind it from a place that it could not use.
func TestThoseBehindOneThatLeavesAreAsked(t *testing.T) {
	s := newSite(t, 0)
	left := []string{}
	for range 2 {
		s.waits(s.leaver("old", interactive, "a", 100, &left))
	}
	first := s.leaver("first of its kind", interactive, "a", 100, &left)
	first.Kind = "k"
	s.waits(first)
	s.queue.Again()
	if e := s.queue.Push(&s.leaver("b", interactive, "b", 100, &left).Waiter, Bounds{Calls: 3}, s.now); e != Waiting || len(left) != 1 {
		t.Fatalf("entry %d, and %v left", e, left)
	}
	if !s.queue.Again() {
		t.Error("nobody is asked")
	}
	s.check()
}

// However tenants come, go and are turned out, everybody is told once what has
// become of it, and nothing is left behind.
func TestCrowds(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := newSite(t, 1, 2)
		state := map[*guest]string{}
		bounds := Bounds{Calls: 12, Tokens: 3000}
		for range 3000 {
			s.now = s.now.Add(10 * time.Millisecond)
			if len(s.placed) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(s.placed))
				g := s.placed[i]
				s.placed = append(s.placed[:i], s.placed[i+1:]...)
				s.queue.Settle(&g.Waiter, float64(r.IntN(900)))
				s.end(g)
				s.check()
				continue
			}
			// The higher the number of a tenant, the more it asks for.
			g := s.guest("", walkClasses[r.IntN(2)], fmt.Sprint(max(r.IntN(4), r.IntN(4))), 1+r.IntN(700))
			g.Kind = walkModels[r.IntN(3)]
			if r.IntN(3) == 0 {
				g.home = s.ends[r.IntN(2)]
			}
			g.Out = func(Entry) {
				if state[g] != "waits" || g.ready > 0 {
					t.Fatalf("one that %s, and was placed %d times, is told to leave", state[g], g.ready)
				}
				state[g] = "left"
			}
			state[g] = "comes"
			switch e := s.queue.Push(&g.Waiter, bounds, s.now); {
			case e == Waiting:
				state[g] = "waits"
			case e != Granted:
				state[g] = "refused"
			}
			s.check()
		}
		counts := map[string]int{}
		for g, is := range state {
			if counts[is]++; (is == "left" || is == "refused") && (g.ready > 0 || g.flow != nil) {
				t.Errorf("one that %s was placed %d times", is, g.ready)
			}
		}
		if counts["left"] < 50 || counts["refused"] < 50 {
			t.Errorf("seed %d: %v", seed, counts)
		}
	}
}
