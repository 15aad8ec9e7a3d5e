package llmlb

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

func settings(pool string, members ...Member) *Settings {
	return &Settings{
		Pool: pool, Members: members,
		Scrape: Scrape{Interval: testInterval, StaleAfter: testStale},
	}
}

func bound(t *testing.T, p *Pool, members ...Member) *Settings {
	t.Helper()
	s := settings(p.Name(), members...)
	if err := p.Bind(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func take(p *Pool, e *Endpoint, now time.Time) *Lease {
	p.Lock()
	defer p.Unlock()
	return p.Reserve(e, now, Work{Uncached: 100, Output: 50})
}

func TestEveryReservationReturnsToZero(t *testing.T) {
	// Two hundred calls that are aborted at random moments, each ended by
	// several goroutines at once.
	p := NewPool("abort")
	s := bound(t, p, Member{Address: "a:1"}, Member{Address: "b:1"})
	var wg sync.WaitGroup
	for i := range 200 {
		l := take(p, s.Members[i%2].Endpoint, t0)
		first := rand.IntN(2) == 0
		for range 3 {
			wg.Go(func() {
				if first {
					l.FirstToken()
				}
				l.End(t0)
				l.FirstToken()
			})
		}
	}
	wg.Wait()
	for _, m := range s.Members {
		if m.Endpoint.ledger.own != (account{}) || m.Endpoint.leases != 0 {
			t.Errorf("%s: %+v and %d leases left", m.Address, m.Endpoint.ledger.own, m.Endpoint.leases)
		}
	}
}

func TestEndpointOutlivesItsConfigurationUntilTheLastStreamEnds(t *testing.T) {
	p := NewPool("reload")
	old := bound(t, p, Member{Address: "a:1"}, Member{Address: "b:1"})
	p.Start(old, t0)
	lease := take(p, old.Members[1].Endpoint, t0)

	next := bound(t, p, Member{Address: "a:1"})
	p.Start(next, t0)
	p.Stop(old, t0)
	p.Unbind(old)
	if got := len(p.Endpoints()); got != 2 {
		t.Fatalf("%d endpoints, want 2: one is still streaming", got)
	}
	if next.Members[0].Endpoint != old.Members[0].Endpoint {
		t.Error("the endpoint's state was lost by the reload")
	}

	// Named again while the stream runs: the same account.
	again := bound(t, p, Member{Address: "b:1"})
	if again.Members[0].Endpoint.leases != 1 {
		t.Error("the open stream is not counted after the endpoint came back")
	}
	p.Unbind(again)
	lease.End(t0)
	if got := p.Endpoints(); len(got) != 1 || got[0].Address() != "a:1" {
		t.Errorf("endpoints %v, want a:1 alone", got)
	}
}

func TestForgottenEndpointDoesNotTakeItsSuccessorAlong(t *testing.T) {
	p := NewPool("successor")
	old := bound(t, p, Member{Address: "a:1"})
	p.Unbind(old)
	next := bound(t, p, Member{Address: "a:1"})
	take(p, old.Members[0].Endpoint, t0).End(t0) // a late call of the old configuration
	if got := p.Endpoints(); len(got) != 1 || got[0] != next.Members[0].Endpoint {
		t.Error("the endpoint in use was forgotten with the old one")
	}
}

func TestFailedConfigurationHandsBackToTheOneStillRunning(t *testing.T) {
	p := NewPool("handback")
	good := bound(t, p, Member{Address: "a:1", Name: "one"})
	p.Start(good, t0)
	bad := bound(t, p, Member{Address: "a:1", Name: "two", Drain: true})
	p.Start(bad, t0)
	if e := good.Members[0].Endpoint; e.Name() != "two" || !e.Draining() {
		t.Fatal("the newest configuration is not in force")
	}
	p.Stop(bad, t0)
	if p.Current() != good {
		t.Fatal("the old settings are not current again")
	}
	if e := good.Members[0].Endpoint; e.Name() != "one" || e.Draining() {
		t.Error("the failed configuration left its name or drain mark behind")
	}
}

func TestPoolLivesAsLongAsSomebodyUsesIt(t *testing.T) {
	find := func(name string) (found *Pool) {
		Pools(func(p *Pool) {
			if p.Name() == name {
				found = p
			}
		})
		return found
	}
	p := Acquire("usage")
	s := bound(t, p, Member{Address: "a:1"})
	lease := take(p, s.Members[0].Endpoint, t0)
	p.Unbind(s)
	p.Release()
	if find("usage") != p {
		t.Fatal("the pool went away under an open stream")
	}
	if q := Acquire("usage"); q != p {
		t.Error("the next configuration did not find the pool")
	}
	p.Release()
	lease.End(t0)
	if find("usage") != nil {
		t.Error("the pool outlives its last user")
	}
}

func TestNamesAndAddressesAreUnique(t *testing.T) {
	for want, members := range map[string][]Member{
		`upstream "a:1" is listed twice`:                   {{Address: "a:1"}, {Address: "a:1"}},
		`endpoint name "x" is used for both "a:1" and "b"`: {{Address: "a:1", Name: "x"}, {Address: "b", Name: "x"}},
	} {
		err := NewPool("p").Bind(settings("p", members...))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestDefaultNameIsStable(t *testing.T) {
	a := DefaultName("default", "10.4.0.11:8000")
	if len(a) != 9 || !strings.HasPrefix(a, "ep-") || strings.Contains(a, "10.4") {
		t.Errorf("name %q, want ep- and six hex digits", a)
	}
	if a != DefaultName("default", "10.4.0.11:8000") || a == DefaultName("other", "10.4.0.11:8000") {
		t.Error("the name must depend on pool and address, and on nothing else")
	}
}

func TestDynamicEndpointsAreForgottenWhenIdle(t *testing.T) {
	p := NewPool("dynamic")
	p.Lock()
	p.Sight("a:1", at(0))
	busy := p.Sight("b:1", at(0))
	lease := p.Reserve(busy, at(0), Work{Uncached: 1, Output: 1})
	p.Unlock()
	p.Sweep(at(60))
	if got := len(p.Endpoints()); got != 2 {
		t.Fatalf("%d endpoints after a minute, want 2", got)
	}
	p.Sweep(at(3600))
	if got := p.Endpoints(); len(got) != 1 || got[0] != busy {
		t.Fatal("want the busy endpoint alone after an hour")
	}
	lease.End(at(3600))
	if got := len(p.Endpoints()); got != 1 {
		t.Errorf("%d endpoints; one that has just served may be named again", got)
	}
	p.Sweep(at(3600 + 660))
	if got := len(p.Endpoints()); got != 0 {
		t.Errorf("%d endpoints, want none long after the last stream", got)
	}
}

// One long stream while nobody else comes must not have a dynamic upstream taken
// for one that was removed.
func TestADynamicEndpointWithALongStreamStaysOne(t *testing.T) {
	p := NewPool("dynamic")
	p.Lock()
	e := p.Sight("a:1", at(0))
	lease := p.Reserve(e, at(0), Work{Uncached: 1, Output: 1})
	p.Unlock()
	p.Sweep(at(3600))
	p.Lock()
	p.Sight("a:1", at(3601))
	p.Unlock()
	if row := p.Status(at(3602)).Endpoints[0]; row.State != "up" {
		t.Errorf("it is %s: %s", row.State, row.Reason)
	}
	lease.End(at(3603))
	if len(p.Endpoints()) != 1 {
		t.Error("it is forgotten with its stream")
	}
}

// An order to drain a dynamic upstream stands, however long nobody asks for it, and
// over a reload that makes a static upstream a dynamic one.
func TestAnOrderToDrainOutlivesIdleness(t *testing.T) {
	p := NewPool("dynamic")
	static := bound(t, p, Member{Address: "a:1"})
	p.Start(static, at(0))
	p.Endpoints()[0].Drain(at(1), DrainOrder{})
	dynamic := settings(p.Name())
	dynamic.Dynamic = true
	if err := p.Bind(dynamic); err != nil {
		t.Fatal(err)
	}
	p.Start(dynamic, at(2))
	p.Stop(static, at(2))
	p.Unbind(static)
	p.Sweep(at(3600))
	p.Lock()
	drains := p.Sight("a:1", at(3601)).Draining()
	p.Unlock()
	if !drains {
		t.Error("the order is forgotten")
	}
}

func TestDrainedOnlyWhenNothingRuns(t *testing.T) {
	p := NewPool("drain")
	s := bound(t, p, Member{Address: "a:1", Drain: true})
	e := s.Members[0].Endpoint
	lease := take(p, e, t0)
	p.Start(s, t0)
	state := func() State {
		p.Lock()
		defer p.Unlock()
		st, _, _ := e.State(t0)
		return st
	}
	if state() != Draining {
		t.Error("our own stream runs: want draining")
	}
	lease.End(t0)
	e.ObserveSignals(page(1, 1, 0))
	if state() != Draining {
		t.Error("somebody else's request runs: want draining")
	}
	e.ObserveSignals(page(2, 0, 0))
	if state() != Drained {
		t.Error("nothing runs: want drained")
	}
}

func TestDownAfterRepeatedFailuresAndBackAtOnce(t *testing.T) {
	p := NewPool("down")
	s := bound(t, p, Member{Address: "a:1"})
	e := s.Members[0].Endpoint
	var changes []string
	p.OnState(func(c Change) { changes = append(changes, c.From.String()+">"+c.To.String()+" "+c.Reason) })
	down := func(sec float64) bool {
		p.Lock()
		defer p.Unlock()
		return e.Down(at(sec))
	}
	e.NotReached(at(0), "connection refused")
	e.NotReached(at(0), "connection refused")
	if down(0) {
		t.Fatal("down after two failures, want three")
	}
	e.NotReached(at(0), "connection refused")
	if !down(0.5) {
		t.Fatal("not down after three failures")
	}
	if down(1) {
		t.Error("no trial after a second")
	}
	take(p, e, at(1)).End(at(1))
	if !down(1.5) || !down(2.9) || down(3) {
		t.Error("the next trial must come two seconds after the first")
	}
	e.Reached(at(3))
	if down(3) {
		t.Error("still down after an answer")
	}
	want := []string{"up>down connection refused", "down>up "}
	if strings.Join(changes, ",") != strings.Join(want, ",") {
		t.Errorf("changes %q, want %q", changes, want)
	}
}

func TestRestartForgetsTheCache(t *testing.T) {
	p := NewPool("restart")
	s := bound(t, p, Member{Address: "a:1"})
	e := s.Members[0].Endpoint
	before := e.CacheID()
	a, b := page(0, 0, 0), page(1, 0, 0)
	a.PromptTokens, b.PromptTokens = 100, 0
	e.ObserveSignals(a)
	if e.CacheID() != before {
		t.Error("the first scrape is not a restart")
	}
	e.ObserveSignals(b)
	if e.CacheID() == before {
		t.Error("the cache of a restarted engine is still believed")
	}
}

func TestOwnTTFTBeatsTheEnginesFor60Seconds(t *testing.T) {
	p := NewPool("ttft")
	s := bound(t, p, Member{Address: "a:1"})
	e := s.Members[0].Endpoint
	a, b := page(0, 0, 0), page(1, 0, 0)
	a.TTFTSum, a.TTFTCount, b.TTFTSum, b.TTFTCount = 0, 0, 0.91, 1
	e.ObserveSignals(a)
	e.ObserveSignals(b)
	recent := func(sec float64) time.Duration {
		p.Lock()
		defer p.Unlock()
		d, _ := e.RecentTTFT(at(sec))
		return d
	}
	if got := recent(1); got != 910*time.Millisecond {
		t.Errorf("TTFT %v, want the engine's 910ms", got)
	}
	e.ObserveTTFT(at(2), 30*time.Millisecond)
	if got := recent(2); got != 30*time.Millisecond {
		t.Errorf("TTFT %v, want our own 30ms", got)
	}
	if got := recent(120); got != 0 {
		t.Errorf("TTFT %v after two minutes, want none", got)
	}
}

func TestWhatGeneratesNothingBooksNothing(t *testing.T) {
	p := NewPool("visit")
	s := bound(t, p, Member{Address: "a:1"})
	e := s.Members[0].Endpoint
	p.Lock()
	lease := p.Reserve(e, t0, Work{})
	p.Unlock()
	if e.ledger.own != (account{}) || e.leases != 1 {
		t.Errorf("booked %+v, %d leases; want no work and one lease", e.ledger.own, e.leases)
	}
	lease.FirstToken()
	lease.End(t0)
	lease.End(t0)
	if e.ledger.own != (account{}) || e.leases != 0 {
		t.Errorf("left %+v, %d leases", e.ledger.own, e.leases)
	}
}

func TestLateCallsSeeTheServerAsTheNewestConfigurationHasIt(t *testing.T) {
	// A call arrived under a configuration that named the server; a reload
	// removed it, the next named it again, to drain.
	p := NewPool("late")
	old := bound(t, p, Member{Address: "a:1"})
	p.Start(old, t0)
	p.Stop(old, t0)
	p.Unbind(old)
	next := bound(t, p, Member{Address: "a:1", Drain: true})
	p.Start(next, t0)
	p.Lock()
	defer p.Unlock()
	e := p.Living(old.Members[0].Endpoint)
	if e != next.Members[0].Endpoint || !e.Draining() {
		t.Error("the late call would go to the draining server")
	}
}
