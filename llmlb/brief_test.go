package llmlb

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// briefWorld is a pool to which anything may happen.
type briefWorld struct {
	pool     *Pool
	settings *Settings
	now      time.Time
	calls    []*Call
	random   *rand.Rand
	start    float64 // of the engines' processes
}

func newBriefWorld(t *testing.T, seed uint64) *briefWorld {
	w := &briefWorld{pool: NewPool("brief"), now: t0, random: rand.New(rand.NewPCG(seed, 1))}
	w.settings = bound(t, w.pool, Member{Address: "a:1"}, Member{Address: "b:1"}, Member{Address: "c:1"})
	s := w.settings
	s.KVLimit, s.Retries = DefaultKVLimit, 2
	s.Circuit = Circuit{Failures: 2, OpenFor: 2 * time.Second}
	s.Checks.WarmUp = 20 * time.Second
	s.Checks.Readiness = Readiness{Path: "/health"}.Settled()
	s.Checks.Canary = Canary{Interval: time.Minute}.Settled()
	w.pool.Start(s, w.now)
	return w
}

func (w *briefWorld) endpoint() *Endpoint { return w.pool.order[w.random.IntN(len(w.pool.order))] }

// call returns one that is open, or nil.
func (w *briefWorld) call() *Call {
	if len(w.calls) == 0 {
		return nil
	}
	return w.calls[w.random.IntN(len(w.calls))]
}

func (w *briefWorld) page() Signals {
	s := NoSignals(w.now)
	n := func(most int) float64 { return float64(w.random.IntN(most)) }
	s.Running, s.Waiting = n(20), n(4)
	s.KVUsage, s.KVCapacity = n(100)/100, 400_000
	s.GenerationTokens, s.PromptTokens, s.CachedTokens = n(9000), n(9000), n(4000)
	s.TTFTSum, s.TTFTCount = n(10), n(100)
	s.ProcessStart, s.Sleeping = w.start, w.random.IntN(20) == 0
	if w.random.IntN(3) == 0 {
		s.Loads, s.Resident, s.ResidentMax, s.LoadSeconds = LoadsAdapters, []string{"adapter"}, 2, 1
	}
	return s
}

// happenings are what may change an endpoint, by the names of what does.
var happenings = map[string]func(w *briefWorld, e *Endpoint){
	"reserve": func(w *briefWorld, e *Endpoint) {
		c := NewCall(w.pool, w.settings, w.now)
		c.InputTokens, c.Stream, c.StreamUsage = 1+w.random.IntN(9000), w.random.IntN(2) == 0, w.random.IntN(2) == 0
		c.Decision.Predicted = time.Duration(w.random.IntN(2000)) * time.Millisecond
		w.pool.Lock()
		c.Lease = w.pool.Reserve(e, w.now, Work{Uncached: c.InputTokens, Output: 100})
		switch w.random.IntN(4) {
		case 0:
			c.Lease.TakeCold()
		case 1:
			c.Lease.Loading(ModelHash("adapter"))
		}
		w.pool.Unlock()
		c.Begin(e, w.now)
		w.calls = append(w.calls, c)
	},
	"first token": func(w *briefWorld, _ *Endpoint) {
		if c := w.call(); c != nil {
			c.SawFirstToken(w.now)
		}
	},
	"stream": func(w *briefWorld, e *Endpoint) { e.observeStream(time.Duration(w.random.IntN(50)) * time.Millisecond) },
	"speed": func(w *briefWorld, _ *Endpoint) {
		if c := w.call(); c != nil {
			c.Lease.learnSpeed(c.Lease.effort)
		}
	},
	"quiet": func(w *briefWorld, _ *Endpoint) {
		if c := w.call(); c != nil {
			c.Lease.Quiet(w.now.Add(time.Second))
		}
	},
	"end": func(w *briefWorld, _ *Endpoint) {
		if c := w.call(); c != nil {
			c.PromptTokens, c.CachedTokens, c.OutputTokens = c.InputTokens, 0, 50
			c.TokenEvents, c.LastToken = 50, w.now
			how := []Outcome{Served, Served, Served, Truncated, EngineError, FirstTokenTimeout, Unreachable, ClientGone}
			c.EndAttempt(w.now, how[w.random.IntN(len(how))])
			w.calls = slices.DeleteFunc(w.calls, func(x *Call) bool { return x == c })
		}
	},
	"scrape":       func(w *briefWorld, e *Endpoint) { e.ObserveSignals(w.page()) },
	"restart":      func(w *briefWorld, e *Endpoint) { w.start += 10; e.ObserveSignals(w.page()) },
	"scrape error": func(w *briefWorld, e *Endpoint) { e.ObserveScrapeError(w.now, "refused") },
	"header":       func(w *briefWorld, e *Endpoint) { e.ObserveHeader(w.page()) },
	"models": func(w *briefWorld, e *Endpoint) {
		list := []Model{{ID: "base"}, {ID: "adapter", Parent: "base"}}
		e.ObserveModels(w.now, list[:1+w.random.IntN(2)])
	},
	"reached":     func(w *briefWorld, e *Endpoint) { e.Reached(w.now) },
	"not reached": func(w *briefWorld, e *Endpoint) { e.NotReached(w.now, "refused") },
	"overload":    func(w *briefWorld, e *Endpoint) { e.NoteOverload(w.now, 0) },
	"reset":       func(w *briefWorld, e *Endpoint) { e.Reset(w.now) },
	"drain":       func(w *briefWorld, e *Endpoint) { e.Drain(w.now, DrainOrder{Limit: time.Second}) },
	"resume":      func(w *briefWorld, e *Endpoint) { _ = e.Resume(w.now) },
	"readiness": func(w *briefWorld, e *Endpoint) {
		e.ObserveReadiness(w.now, CheckResult{Began: w.now, Verdict: CheckVerdict(w.random.IntN(4))}, w.settings.Checks.Readiness)
	},
	"canary": func(w *briefWorld, e *Endpoint) {
		slow := time.Duration(1+w.random.IntN(2)*20) * 50 * time.Millisecond
		e.ObserveCanary(w.now, CheckResult{Began: w.now, Verdict: CheckVerdict(w.random.IntN(2)), TTFT: slow, Idle: true}, w.settings.Checks.Canary)
	},
	"notice": func(w *briefWorld, _ *Endpoint) { w.pool.Notice(w.now) },
	"reload": func(w *briefWorld, e *Endpoint) {
		w.pool.Stop(w.settings, w.now)
		w.settings.Member(e.Address()).Drain = w.random.IntN(4) == 0
		w.settings.Checks.MustPass = w.random.IntN(4) == 0
		w.settings.Scrape.StaleAfter = time.Duration(2+w.random.IntN(4)) * time.Second
		w.pool.Start(w.settings, w.now)
	},
}

// What is kept of an endpoint says at every moment what would be worked out anew,
// whatever happens to it. A choice by anything else would be one by the past.
func TestABriefIsNeverOutOfDate(t *testing.T) {
	names := slices.Sorted(maps.Keys(happenings))
	for seed := range uint64(60) {
		w := newBriefWorld(t, seed)
		for range 400 {
			// Often nothing passes but time, sometimes a lot of it, and sometimes
			// somebody comes late with an older clock.
			switch w.random.IntN(9) {
			case 0:
				w.now = w.now.Add(time.Duration(w.random.IntN(90)) * time.Second)
			case 8:
				w.now = w.now.Add(time.Duration(w.random.IntN(2)) * 10 * time.Minute)
			case 1, 2, 3:
				w.now = w.now.Add(time.Duration(w.random.IntN(1500)) * time.Millisecond)
			case 4:
				w.now = w.now.Add(-time.Millisecond)
			}
			name := names[w.random.IntN(len(names))]
			happenings[name](w, w.endpoint())
			if told := w.outOfDate(); told != "" {
				t.Fatalf("seed %d, after %q: %s", seed, name, told)
			}
		}
	}
}

// outOfDate tells what is, "" for nothing.
func (w *briefWorld) outOfDate() string {
	w.pool.Lock()
	defer w.pool.Unlock()
	a := w.pool.Asking(w.now, w.settings)
	for _, e := range w.pool.order {
		kept := briefly(e, &a)
		e.touch()
		if anew := briefly(e, &a); kept != anew {
			return fmt.Sprintf("%s is kept as\n%s, and it is\n%s", e.address, kept, anew)
		}
		if load := e.plainLoad(&a); load != e.Load(w.now, w.settings) {
			return fmt.Sprintf("the load of %s is %+v, and by the ledger %+v", e.address, e.Load(w.now, w.settings), load)
		}
	}
	return ""
}

// briefly writes down all that the endpoint's Brief tells.
func briefly(e *Endpoint, a *Asking) string {
	b := e.Brief(a)
	rate, fresh := b.Rate(a)
	return fmt.Sprintln(b.Load(a), rate, fresh, b.LoadDelay(ModelHash("adapter"), a.now), b.Well, b.CacheID, b.Share,
		b.Recent, b.PrefillTokens, b.OutputTokens, b.ColdCalls, b.Others, b.All, b.Hits, b.Prompts, b.Models, b.loads, b.room-a.at)
}

// plainLoad is the account as the ledger tells it, less what must have been computed.
func (e *Endpoint) plainLoad(a *Asking) Load {
	rate := e.rates.rate()
	ld := e.ledger.Load(a.now, a.settings.Scrape.Interval, a.settings.Scrape.StaleAfter, rate.Speed)
	if p := &e.prefills; rate.Samples >= enoughSamples && len(p.leases) > 0 {
		ld.PrefillTokens -= min(progressMost*float64(p.leases[0].effort), max(0, a.now.Sub(p.since).Seconds())*rate.Speed)
	}
	return ld
}

// Most of what is asked of a pool at work is kept: else nothing is gained.
func TestABriefIsKept(t *testing.T) {
	w := newBriefWorld(t, 1)
	for _, e := range w.pool.order {
		e.ObserveModels(w.now, []Model{{ID: "base"}})
		e.ObserveSignals(w.page())
		happenings["reserve"](w, e)
	}
	w.settings.Checks.WarmUp = 0
	w.pool.Lock()
	defer w.pool.Unlock()
	made := func() (list [3]time.Duration) {
		a := w.pool.Asking(w.now, w.settings)
		for i, e := range w.pool.order {
			list[i] = e.Brief(&a).made
		}
		return list
	}
	before := made()
	w.now = w.now.Add(20 * time.Millisecond)
	if after := made(); after != before {
		t.Errorf("worked out at %v, and again at %v, though nothing has happened", before, after)
	}
}

// Whoever asks under other settings, in the midst of a reload, gets what those say.
func TestABriefGoesByTheSettings(t *testing.T) {
	w := newBriefWorld(t, 1)
	e := w.pool.order[0]
	s := NoSignals(w.now)
	s.Running = 4
	e.ObserveSignals(s)
	other := *w.settings
	other.Scrape.StaleAfter = 2 * w.settings.Scrape.StaleAfter
	at := w.now.Add(w.settings.Scrape.StaleAfter)
	w.pool.Lock()
	defer w.pool.Unlock()
	for range 2 {
		if ld := e.Load(at, w.settings); !ld.Blind {
			t.Error("numbers count that are too old")
		}
		if ld := e.Load(at, &other); ld.Blind {
			t.Error("numbers count for nothing that are not too old under the other settings")
		}
	}
}
