package selection

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// returning has the endpoint go and come back to a pool at work, just now: it
// warms up, over the default time.
func (w *world) returning(address string) {
	w.t.Helper()
	w.settings.Checks.WarmUp = llmlb.DefaultWarmUp
	w.checked(address, llmlb.CheckFailed)
	w.checked(address, llmlb.CheckPassed)
	if share := w.share(address); share != 0.1 {
		w.t.Fatalf("the share is %v after coming back, want a tenth", share)
	}
}

func (w *world) share(address string) float64 {
	w.pool.Lock()
	defer w.pool.Unlock()
	return w.endpoint(address).Share(w.now, w.settings)
}

// open sends n calls that stay open, as many a second, and tells where they are.
func (w *world) open(n int, every time.Duration, place func(*llmlb.Call, time.Time) Verdict) map[string]int {
	w.t.Helper()
	got := map[string]int{}
	for i := range n {
		c := w.call(prompt(part{fmt.Sprint(w.now.UnixNano(), " user ", i), 600}))
		if v := place(c, w.now); v == Granted {
			got[where(c)]++
			c.Begin(c.Lease.Endpoint(), w.now)
			c.SawFirstToken(w.now)
		}
		w.now = w.now.Add(every)
	}
	return got
}

// waiting is Place without what it says besides.
func waiting(c *llmlb.Call, now time.Time) Verdict {
	v, _, _ := Place(c, now)
	return v
}

// What may be open at an endpoint, by its share and what the others have.
func TestMostByShare(t *testing.T) {
	for _, tc := range []struct {
		share  float64
		weight float64   // of the endpoint
		others []float64 // calls and weight of each of the others, in turn
		want   int
	}{
		{0.1, 1, nil, math.MaxInt},
		{1, 1, []float64{4, 1}, math.MaxInt},
		{0.1, 1, []float64{0, 1}, 1},
		{0.1, 1, []float64{9, 1, 9, 1}, 1},
		{0.1, 1, []float64{20, 1, 18, 1}, 2},
		{0.5, 1, []float64{19, 1}, 10},
		{0.5, 2, []float64{19, 1}, 20},
		{0.5, 1, []float64{38, 2}, 10},
		{0.25, 1, []float64{100, 1}, 26},
	} {
		var others peers
		for i := 0; i < len(tc.others); i += 2 {
			others.add(int(tc.others[i]), &llmlb.Member{Weight: tc.others[i+1]})
		}
		if got := others.most(tc.share, &llmlb.Member{Weight: tc.weight}); got != tc.want {
			t.Errorf("share %v, weight %v, others %v: %d, want %d", tc.share, tc.weight, tc.others, got, tc.want)
		}
	}
}

// A server that has just come back is empty. It does not get all that comes for
// that, under any strategy; what it gets grows, and in the end all have the same.
func TestNoHerdToWhatHasComeBack(t *testing.T) {
	for _, strategy := range Strategies() {
		t.Run(strategy, func(t *testing.T) {
			list := addresses(3)
			w := newWorld(t, list...)
			w.settings.Strategy, w.settings.Scorers = strategy, DefaultScorers()
			w.now = w.now.Add(time.Minute)
			w.scrapeAll(0, 0, 0)
			w.occupy(list[0], 10)
			w.occupy(list[1], 10)
			w.returning(list[2])
			for _, step := range []struct {
				after time.Duration
				most  int
			}{{0, 3}, {10 * time.Second, 9}, {20 * time.Second, 22}} {
				w.now = w.now.Add(step.after)
				w.scrapeAll(0, 0, 0)
				w.open(15, time.Millisecond, Grant)
				own := w.own(list[2])
				others := float64(w.own(list[0])+w.own(list[1])) / 2
				if bound := math.Ceil(w.share(list[2]) * (others + 1)); float64(own) > bound || own > step.most {
					t.Errorf("%d calls open there at a share of %.2f, %.0f at each of the others", own, w.share(list[2]), others)
				}
			}
			if own := w.own(list[2]); own < 3 {
				t.Errorf("%d calls are open there: its share has not grown", own)
			}
			w.now = w.now.Add(llmlb.DefaultWarmUp)
			w.scrapeAll(0, 0, 0)
			w.open(60, time.Millisecond, Grant)
			if a, c := w.own(list[0]), w.own(list[2]); c < a*8/10 || c > a*12/10 {
				t.Errorf("%d calls at one of the others and %d there after the warm-up", a, c)
			}
		})
	}
}

func (w *world) own(address string) int {
	w.pool.Lock()
	defer w.pool.Unlock()
	return w.endpoint(address).Load(w.now, w.settings).Own
}

// Nobody waits beside a degraded server that has room when the others have none,
// though it has its share.
func TestTheOthersAreFullBesideADegradedServer(t *testing.T) {
	list := addresses(2)
	w := newWorld(t, list...)
	w.settings.Members[0].MaxConcurrent, w.settings.Members[1].MaxConcurrent = 8, 8
	w.settings.Checks.Canary.Interval = time.Second
	w.degrade(list[1])
	w.occupy(list[0], 8)
	if got := w.open(20, 0, waiting); got[list[1]] != 8 {
		t.Errorf("%v got a place, want as many as there are", got)
	}
}

// Where nobody is there to warm up beside, everything goes to what there is.
func TestNobodyToWarmUpBeside(t *testing.T) {
	for _, n := range []int{1, 3} {
		list := addresses(n)
		w := newWorld(t, list...)
		w.now = w.now.Add(time.Minute)
		for _, a := range list {
			w.returning(a)
		}
		if got := w.open(12*n, time.Millisecond, waiting); got[list[0]] < 10 || got[list[0]] > 14 {
			t.Errorf("%d servers: calls went %v", n, got)
		}
	}
}

// Whoever asks why a server that has just come back did not get a request is told.
func TestTheShareIsExplained(t *testing.T) {
	list := addresses(3)
	w := newWorld(t, list...)
	w.now = w.now.Add(time.Minute)
	for _, a := range list {
		w.occupy(a, 10)
	}
	w.returning(list[2])
	w.grant(prompt(part{"user", 600}))
	if why := w.barredAs(list[2]); why != "warming up, and has its share" {
		t.Errorf("explained as %q", why)
	}
}

// A server that has got slow gets less, not nothing.
func TestADegradedServerGetsLess(t *testing.T) {
	list := addresses(2)
	w := newWorld(t, list...)
	w.settings.Checks.Canary.Interval = time.Second
	w.degrade(list[1])
	w.scrapeAll(0, 0, 0)
	if share := w.share(list[1]); share != 0.25 {
		t.Fatalf("the share is %v", share)
	}
	got := w.open(50, time.Millisecond, Grant)
	if n := got[list[1]]; n < 5 || n > 12 {
		t.Errorf("%d of 50 went there, want about a fifth", n)
	}
	full := newWorld(t, list...)
	full.settings.Checks.Canary.Interval = time.Second
	full.degrade(list[1])
	full.occupy(list[0], 4)
	full.occupy(list[1], 2)
	if c := full.grant(prompt(part{"one more", 600})); where(c) != list[0] || full.barredAs(list[1]) != "degraded, and has its share" {
		t.Errorf("went to %s, the degraded one explained as %q", where(c), full.barredAs(list[1]))
	}
}

// degrade has canaries find the server far slower than it used to be.
func (w *world) degrade(address string) {
	w.t.Helper()
	canary := func(ttft time.Duration) {
		w.endpoint(address).ObserveCanary(w.now, llmlb.CheckResult{Began: w.now, TTFT: ttft, Idle: true}, llmlb.Canary{Fails: 3})
		w.now = w.now.Add(time.Second)
	}
	for range 10 {
		canary(50 * time.Millisecond)
	}
	for range 3 {
		canary(2 * time.Second)
	}
}

// A smaller share makes an endpoint compare worse. It makes nothing take longer:
// neither what people are told nor how long a first token is waited for.
func TestAShareChangesNoPrediction(t *testing.T) {
	list := addresses(1)
	predicted := func(returns bool) time.Duration {
		w := newWorld(t, list...)
		w.now = w.now.Add(time.Minute)
		if returns {
			w.returning(list[0])
		}
		return w.grant(prompt(part{"user", 20_000})).Decision.Predicted
	}
	if whole, tenth := predicted(false), predicted(true); whole != tenth {
		t.Errorf("predicted %v, and %v at a tenth of its share", whole, tenth)
	}
}

// What it does change is what the endpoint costs beside others.
func TestAShareCountsAsSlower(t *testing.T) {
	list := addresses(2)
	w := newWorld(t, list...)
	w.now = w.now.Add(time.Minute)
	w.teach(5000, 5000)
	w.returning(list[1])
	w.grant(prompt(part{"user", 10_000}))
	costs := map[string]float64{}
	for _, s := range w.pool.Explain()[0].Candidates {
		costs[s.Endpoint] = *s.Cost
	}
	if one, tenth := costs[w.endpoint(list[0]).Name()], costs[w.endpoint(list[1]).Name()]; tenth < 9*one || tenth > 11*one {
		t.Errorf("costs %v and, at a tenth of its share, %v", one, tenth)
	}
}

// While an endpoint warms up it is home to as many new conversations as its share
// says. They come to it one after the other; none that it has leaves it, and none
// moves between the others.
func TestHomesDuringWarmUp(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	homes := func(share float64) []int {
		of := make([]int, 3000)
		for key := range of {
			ch := w.made(uint64(key+1)*0x9e3779b97f4a7c15, make([]seat, 3)...)
			for _, s := range ch.left {
				s.home, s.rate = false, llmlb.Rate{Speed: 5000}
			}
			ch.left[0].share = share
			ch.findHome()
			for i, s := range ch.left {
				if s.home {
					of[key] = i
				}
			}
		}
		return of
	}
	before := homes(0.1)
	for _, share := range []float64{0.1, 0.25, 0.5, 1} {
		now, n := homes(share), 0
		for key, i := range now {
			if i == 0 {
				n++
			}
			if i != before[key] && i != 0 {
				t.Fatalf("a conversation moved from %d to %d as the share of 0 grew to %v", before[key], i, share)
			}
		}
		if got, want := float64(n)/float64(len(now)), share/(2+share); math.Abs(got-want) > 0.03 {
			t.Errorf("at a share of %v it is home to %.1f %% of all, want %.1f %%", share, 100*got, 100*want)
		}
		before = now
	}
}

// A conversation that found another server while its own was away stays there
// while that one warms up.
func TestAWarmConversationStaysAway(t *testing.T) {
	list := addresses(2)
	w := newWorld(t, list...)
	w.settings.Checks.WarmUp = llmlb.DefaultWarmUp
	w.now = w.now.Add(time.Minute)
	w.scrapeAll(0, 0, 0)
	said := []part{{"first", 2000}}
	home, _ := w.serve(prompt(said...))
	w.checked(home, llmlb.CheckFailed)
	said = append(said, part{"second", 500})
	away, _ := w.serve(prompt(said...))
	if away == home {
		t.Fatal("went to a server that is out")
	}
	w.checked(home, llmlb.CheckPassed)
	for i := range 20 {
		w.scrapeAll(0, 0, 0)
		said = append(said, part{fmt.Sprint("turn ", i), 200})
		if at, d := w.serve(prompt(said...)); at != away {
			t.Fatalf("turn %d went back (%v)", i, d.Reason)
		}
		w.now = w.now.Add(time.Second)
	}
}
