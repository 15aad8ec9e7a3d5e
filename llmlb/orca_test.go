package llmlb

import (
	"math"
	"testing"
	"time"
)

func header(sec, running, waiting float64) *Signals {
	s := page(sec, running, waiting)
	return &s
}

func TestHeaderIsLaidOverTheScrape(t *testing.T) {
	// A header tells two numbers. The rest of what the page said must live on, and
	// the counters must give the same speed at the next scrape as without it.
	var l Ledger
	first := page(0, 20, 8)
	first.Engine, first.Models = "vllm", []string{"m"}
	first.KVUsage, first.KVUsageMax, first.KVCapacity = 0.5, 0.5, 4096
	first.GenerationTokens, first.TTFTSum, first.TTFTCount = 1000, 1, 10
	l.observe(first)
	s := header(0.9, Unknown, 3)
	s.KVUsage = 0.6
	l.observeHeader(s, testStale)
	got, ok := l.Signals()
	if !ok || got.Waiting != 3 || got.Running != 20 || got.KVUsage != 0.6 || got.KVUsageMax != 0.6 || got.KVCapacity != 4096 {
		t.Errorf("after the header: %+v", got)
	}
	if got.Engine != "vllm" || len(got.Models) != 1 || got.GenerationTokens != 1000 || got.TTFTCount != 10 {
		t.Errorf("the header cost what the page said: %+v", got)
	}
	if !got.At.Equal(at(0.9)) {
		t.Errorf("the numbers are from %v", got.At)
	}
	if load := l.Load(at(0.9), testInterval, testStale, PriorSpeed); load.Foreign != 23 {
		t.Errorf("foreign %v, want 3 waiting and 20 running", load.Foreign)
	}
	next := page(1, 20, 3)
	next.GenerationTokens, next.TTFTSum, next.TTFTCount = 1500, 2, 20
	if l.observe(next) {
		t.Error("the header looks like a restart")
	}
	if got := l.TokensPerSecond(); got != 500 {
		t.Errorf("%v tokens a second, want 500: the header shortened the time", got)
	}
}

func TestOnlyLoadRenewsTheAge(t *testing.T) {
	// Triton tells its memory alone. An endpoint whose load is unknown must not
	// look fresh for that.
	var l Ledger
	l.observe(page(0, 4, 0))
	memory := NoSignals(at(4))
	memory.KVUsage, memory.KVCapacity = 0.9, 81920
	l.observeHeader(&memory, testStale)
	if got := l.Load(at(4), testInterval, testStale, PriorSpeed); got.KVUsage != 0.9 || got.KVCapacity != 81920 || got.Blind {
		t.Errorf("within stale_after: %+v", got)
	}
	if got := l.Load(at(5), testInterval, testStale, PriorSpeed); !got.Blind {
		t.Errorf("memory made the load fresh: %+v", got)
	}
	var never Ledger
	never.observeHeader(&memory, testStale)
	if got := never.Load(at(4), testInterval, testStale, PriorSpeed); !got.Blind {
		t.Errorf("memory alone is no load: %+v", got)
	}
}

func TestOwnWorkIsNotCountedTwiceByHeaders(t *testing.T) {
	// Five answers come together. Each head was written when all five calls were
	// there, and is read when fewer are left.
	for _, scraped := range []bool{true, false} {
		var l Ledger
		if scraped {
			l.observe(page(0, 0, 0))
		}
		for range 5 {
			l.reserve(Work{Uncached: 100, Output: 10})
		}
		for i := range 5 {
			l.observeHeader(header(1+0.01*float64(i), 5, 5), testStale)
			if got := l.Load(at(1.1), testInterval, testStale, PriorSpeed); got.Foreign != 0 {
				t.Errorf("scraped %v, answer %d: foreign %v, want 0", scraped, i+1, got.Foreign)
			}
			l.release(Prefill, Work{Uncached: 100, Output: 10})
		}
		// Neither is a page that was written before them and comes after.
		l.observe(page(1.2, 5, 0))
		if got := l.Load(at(1.2), testInterval, testStale, PriorSpeed); got.Foreign != 0 {
			t.Errorf("scraped %v: foreign %v after the scrape, want 0", scraped, got.Foreign)
		}
		l.observeHeader(header(1.3, Unknown, 9), testStale)
		if got := l.Load(at(1.3), testInterval, testStale, PriorSpeed); got.Foreign != 4 {
			t.Errorf("scraped %v: foreign %v, want the 4 of 9 that cannot be ours", scraped, got.Foreign)
		}
	}
}

func TestLatePageAfterAHeader(t *testing.T) {
	// A page took its time. It was written while five calls of ours were there,
	// which had ended when a header came, and came itself after it.
	var l Ledger
	l.observe(page(0, 0, 0))
	for range 5 {
		l.reserve(Work{Uncached: 100, Output: 10})
	}
	for range 5 {
		l.release(Prefill, Work{Uncached: 100, Output: 10})
	}
	l.observeHeader(header(6, 0, 0), testStale)
	l.observe(page(6.5, 5, 5))
	if got := l.Load(at(6.5), testInterval, testStale, PriorSpeed); got.Foreign != 0 {
		t.Errorf("foreign %v, want 0", got.Foreign)
	}
	l.observe(page(7.5, 5, 5))
	if got := l.Load(at(7.5), testInterval, testStale, PriorSpeed); got.Foreign != 10 {
		t.Errorf("foreign %v at the next page, want 10", got.Foreign)
	}
}

func TestHeadersAloneSeeOthers(t *testing.T) {
	// Nothing is scraped. Calls of ours that ended long ago must not hide what
	// others send.
	var l Ledger
	for range 6 {
		l.reserve(Work{Uncached: 100, Output: 10})
	}
	l.observeHeader(header(0, 6, 6), testStale)
	for range 6 {
		l.release(Prefill, Work{Uncached: 100, Output: 10})
	}
	foreign := func(sec float64) float64 {
		l.observeHeader(header(sec, Unknown, 6), testStale)
		got := l.Load(at(sec), testInterval, testStale, PriorSpeed)
		return got.Foreign
	}
	if got := foreign(1); got != 0 {
		t.Errorf("foreign %v at once, want 0", got)
	}
	for sec := 2.0; sec < 12; sec++ {
		foreign(sec)
	}
	if got := foreign(12); got != 6 {
		t.Errorf("foreign %v in the end, want 6", got)
	}
}

func TestHeaderDoesNotKeepAnOldPageAlive(t *testing.T) {
	// Metrics broke off while the engine was busy. Headers that tell of waiting
	// alone must not make the old rest look like now.
	var l Ledger
	busy := page(0, 50, 3)
	busy.KVUsage, busy.KVUsageMax, busy.KVCapacity, busy.Sleeping = 0.99, 0.99, 4096, true
	l.observe(busy)
	l.observeHeader(header(4.9, Unknown, 1), testStale)
	if got := l.Load(at(4.9), testInterval, testStale, PriorSpeed); got.Foreign != 51 || got.KVUsage != 0.99 {
		t.Errorf("while the page counts: %+v", got)
	}
	l.observeHeader(header(5, Unknown, 1), testStale)
	got := l.Load(at(5), testInterval, testStale, PriorSpeed)
	if got.Foreign != 1 || got.KVUsage != Unknown || got.KVCapacity != 4096 || got.Blind {
		t.Errorf("after stale_after: %+v", got)
	}
	if s, _ := l.Signals(); s.Running != Unknown || s.Sleeping {
		t.Errorf("after stale_after: %+v", s)
	}
}

func TestOldHeaderIsDropped(t *testing.T) {
	var l Ledger
	l.observe(page(1, 4, 4))
	l.observeHeader(header(0.5, 0, 0), testStale)
	if s, _ := l.Signals(); s.Waiting != 4 || !s.At.Equal(at(1)) {
		t.Errorf("a header from before the scrape made it %+v", s)
	}
}

func TestWaitingTokensGoWithTheirQueue(t *testing.T) {
	// The page told how many tokens waited in a queue that was empty then.
	var l Ledger
	idle := page(0, 0, 0)
	idle.WaitingTokens = 0
	l.observe(idle)
	l.observeHeader(header(1, Unknown, 3), testStale)
	if got := l.Load(at(1), testInterval, testStale, PriorSpeed); got.PrefillTokens != 3*priorPrompt {
		t.Errorf("three waiting requests count for %v tokens", got.PrefillTokens)
	}
}

func TestEmptyHeaderIsNoSample(t *testing.T) {
	p := NewPool("test")
	s := &Settings{Members: []Member{{Address: "10.0.0.1:8000"}}}
	if err := p.Bind(s); err != nil {
		t.Fatal(err)
	}
	e := s.Members[0].Endpoint
	odd := NoSignals(at(0))
	odd.KVUsage, odd.KVCapacity = math.NaN(), 0
	e.ObserveHeader(NoSignals(at(0)))
	e.ObserveHeader(odd)
	p.Lock()
	_, any := e.Ledger().Signals()
	p.Unlock()
	if any {
		t.Error("nothing was told, and something is known")
	}
}

func TestHeaderGoesByTheConfiguredAge(t *testing.T) {
	// An engine that is scraped once in ten seconds is not out of date after five.
	p := NewPool("test")
	s := &Settings{Members: []Member{{Address: "10.0.0.1:8000"}}, Scrape: Scrape{Interval: 10 * time.Second, StaleAfter: 30 * time.Second}}
	if err := p.Bind(s); err != nil {
		t.Fatal(err)
	}
	p.Start(s, at(0))
	e := s.Members[0].Endpoint
	e.ObserveSignals(page(0, 50, 0))
	e.ObserveHeader(*header(9, Unknown, 1))
	p.Lock()
	defer p.Unlock()
	if got := e.Load(at(9), s); got.Foreign != 51 {
		t.Errorf("foreign %v, want 51: the page counts for 30 s", got.Foreign)
	}
	if tried, _ := e.Scrapes(); tried != 1 {
		t.Errorf("%d scrapes are counted, want 1", tried)
	}
}
