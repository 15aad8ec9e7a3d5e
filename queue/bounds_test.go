package queue

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func TestBounds(t *testing.T) {
	s := newSite(t, 0)
	enter := func(c *Class, tokens int, b Bounds) Entry {
		defer s.check()
		return s.queue.Push(&s.guest("", c, "a", tokens).Waiter, b, s.now)
	}
	three := Bounds{Calls: 3}
	for _, test := range []struct {
		class  *Class
		tokens int
		bounds Bounds
		want   Entry
	}{
		{background, 100, three, Waiting},
		{background, 100, three, Waiting},
		{interactive, 100, three, Waiting}, // of its class and those above none waits
		{background, 100, three, FullCalls},
		{interactive, 100, three, Waiting}, // summaries keep nobody out
		{interactive, 100, Bounds{Calls: 9, Tokens: 299}, FullTokens},
		{interactive, 100, Bounds{Calls: 3, Tokens: 300}, Waiting},
		{interactive, 100, three, FullCalls},
		{background, 100, Bounds{}, FullCalls},
	} {
		if got := enter(test.class, test.tokens, test.bounds); got != test.want {
			t.Errorf("%s with %+v: entry %d, want %d", test.class.Name, test.bounds, got, test.want)
		}
	}
	for _, test := range []struct {
		class  *Class
		bounds Bounds
		want   bool
	}{
		{interactive, three, true},
		{interactive, Bounds{Calls: 4}, false},
		{background, Bounds{Calls: 5}, true},
		{background, Bounds{Calls: 6}, false},
		{interactive, Bounds{Calls: 9, Tokens: 300}, true},
		{interactive, Bounds{Calls: 9, Tokens: 301}, false},
	} {
		if got := s.queue.Full(test.class, "a", test.bounds); got != test.want {
			t.Errorf("%s with %+v: full is %v", test.class.Name, test.bounds, got)
		}
	}
}

// A prompt that is longer than all that may wait waits, if it is alone.
func TestOneLongPromptMayWait(t *testing.T) {
	s := newSite(t, 0)
	b := Bounds{Calls: 9, Tokens: 1000}
	if e := s.queue.Push(&s.guest("", interactive, "a", 5000).Waiter, b, s.now); e != Waiting {
		t.Errorf("entry %d", e)
	}
	if e := s.queue.Push(&s.guest("", interactive, "a", 1).Waiter, b, s.now); e != FullTokens {
		t.Errorf("after it: entry %d", e)
	}
}

// Who is let through at once is not refused, however little may wait.
func TestBoundsAreForThoseWhoWait(t *testing.T) {
	s := newSite(t, 2)
	for range 2 {
		if e := s.queue.Push(&s.guest("", interactive, "a", 100).Waiter, Bounds{}, s.now); e != Granted {
			t.Errorf("entry %d", e)
		}
	}
	if s.queue.Full(interactive, "a", Bounds{}) {
		t.Error("an empty queue is full")
	}
}

// What it would wait for comes after its time: it is told so at once, and keeps
// nobody from the place that it leaves.
func TestHopeless(t *testing.T) {
	s := newSite(t, 0)
	g := s.guest("", interactive, "a", 100)
	g.Until = s.now.Add(time.Second)
	g.Call.RetryAt = s.now.Add(2 * time.Second)
	if e := s.push(g); e != Hopeless || s.queue.Len() != 0 {
		t.Errorf("entry %d, %d wait", e, s.queue.Len())
	}
	s.check()
	g.Call.RetryAt = s.now.Add(time.Second)
	s.waits(g)
}

// The prompt, and what is expected to be generated, count as tokens; generated
// ones cost twice as much.
func TestTokensOfACall(t *testing.T) {
	pool := llmlb.NewPool("test")
	s := newSite(t, 0)
	g := s.guest("", interactive, "a", 1000)
	g.Call.Pool, g.Call.Encodes, g.Call.MaxOutputTokens = pool, false, 200
	s.waits(g)
	if st := s.queue.Status(s.now); st[0].Tokens != 1100 || g.cost != 1200 {
		t.Errorf("%d tokens wait, which cost %v", st[0].Tokens, g.cost)
	}
	if p := Price(-5, 7); p != 14 {
		t.Errorf("price %v", p)
	}
	s.give(s.ends[0], 1)
	s.queue.Settle(&g.Waiter, Price(300, 50))
	if c := s.queue.class(interactive).tenants["a"].counter; c != 400 {
		t.Errorf("its tenant is charged %v", c)
	}
}

func TestStatus(t *testing.T) {
	s := newSite(t, 0)
	s.waits(s.guest("", background, "a", 100))
	s.now = s.now.Add(time.Second)
	s.waits(s.guest("", background, "b", 50), s.guest("", interactive, "b", 7))
	s.now = s.now.Add(time.Second)
	st := s.queue.Status(s.now)
	if len(st) != 2 || st[0].Name != "interactive" || st[0].Calls != 1 || st[0].Tokens != 7 || st[0].Oldest != time.Second ||
		st[1].Name != "background" || st[1].Calls != 2 || st[1].Tokens != 150 || st[1].Oldest != 2*time.Second {
		t.Errorf("status %+v", st)
	}
	s.give(s.ends[0], 3)
	st = s.queue.Status(s.now)
	n, sum, _ := st[1].Waits.Snapshot()
	if st[1].Calls+st[1].Tokens != 0 || st[1].Oldest != 0 || n != 2 || sum != 3 {
		t.Errorf("after it: %+v, %d waited for %v s", st[1], n, sum)
	}
}
