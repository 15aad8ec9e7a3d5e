package llmlb

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// An order to drain stands over reloads and ends with a resume; the configuration's
// own is not an operator's to end.
func TestDrainByOrder(t *testing.T) {
	p, list, news := checked(t, Checks{}, "a:1", "b:1")
	a := list[0]
	open := send(p, a, 1)
	a.Drain(at(1), DrainOrder{})
	if s := stateAt(a, 1); s != Draining {
		t.Errorf("it is %s", s)
	}
	next := bound(t, p, Member{Address: "a:1"}, Member{Address: "b:1", Drain: true})
	p.Start(next, at(2))
	if s := stateAt(a, 2); s != Draining {
		t.Errorf("after a reload it is %s", s)
	}
	if err := list[1].Resume(at(3)); !errors.Is(err, ErrDrainConfigured) {
		t.Errorf("resumed against the configuration: %v", err)
	}
	open.EndAttempt(at(4), Served)
	p.Notice(at(5))
	if err := a.Resume(at(6)); err != nil {
		t.Error(err)
	}
	if err := a.Resume(at(6)); err != nil {
		t.Errorf("a second time: %v", err)
	}
	want := []string{"up > draining 1 open here", "draining > drained", "up > drained", "drained > up"}
	slices.Sort(want)
	slices.Sort(*news)
	if !slices.Equal(*news, want) {
		t.Errorf("told %q, want %q", *news, want)
	}
}

// It is drained when the engine too says that nothing runs there: other gateways
// may send to it still.
func TestDrainedCountsOthers(t *testing.T) {
	_, list, _ := checked(t, Checks{}, "a:1")
	a := list[0]
	a.Drain(at(1), DrainOrder{})
	a.ObserveSignals(page(2, 3, 0))
	if s := stateAt(a, 2); s != Draining {
		t.Errorf("it is %s while three of others run there", s)
	}
	a.ObserveSignals(page(3, 0, 0))
	if s := stateAt(a, 3); s != Drained {
		t.Errorf("it is %s with nothing left", s)
	}
}

func TestDrainLimit(t *testing.T) {
	for name, test := range map[string]struct {
		order      DrainOrder
		cutAt      float64 // 0 for never
		overdue    bool
		wantReason string
	}{
		"none":          {DrainOrder{}, 0, false, "1 open here"},
		"reports":       {DrainOrder{Limit: 10 * time.Second}, 0, true, "limit of 10s is over; 1 open here"},
		"cuts":          {DrainOrder{Limit: 10 * time.Second, Cut: true}, 10, true, "limit of 10s is over; 1 open here"},
		"cuts at once":  {DrainOrder{Cut: true}, 1, true, "cut; 1 open here"},
		"not yet there": {DrainOrder{Limit: time.Minute}, 0, false, "1 open here; limit in 45s"},
	} {
		t.Run(name, func(t *testing.T) {
			p, list, _ := checked(t, Checks{}, "a:1")
			a := list[0]
			send(p, a, 0)
			cut := a.Cut()
			a.Drain(at(0), test.order)
			cutAt := 0.0
			for sec := 1.0; sec <= 15; sec++ {
				p.Notice(at(sec))
				select {
				case <-cut:
					if cutAt == 0 {
						cutAt = sec
					}
				default:
				}
			}
			if cutAt != test.cutAt {
				t.Errorf("cut at %v, want %v", cutAt, test.cutAt)
			}
			row := p.Status(at(15)).Endpoints[0]
			if row.Drain == nil || row.Drain.Overdue != test.overdue || row.Reason != test.wantReason {
				t.Errorf("row %+v, drain %+v", row, row.Drain)
			}
		})
	}
}

// What an operator cuts is no failure of the server.
func TestCutOpensNoCircuit(t *testing.T) {
	p, e, _ := withCircuit(t)
	var calls []*Call
	for range 20 {
		calls = append(calls, send(p, e, 0))
	}
	e.Drain(at(1), DrainOrder{Cut: true})
	for _, c := range calls {
		c.EndAttempt(at(1), Truncated)
	}
	if err := e.Resume(at(2)); err != nil {
		t.Fatal(err)
	}
	if down(e, 2) {
		t.Error("it is down")
	}
	e.pool.Lock()
	defer e.pool.Unlock()
	if e.TrafficFails(at(2)) {
		t.Error("its traffic counts as failing")
	}
}

// A call that was placed just before the order hears of the cut all the same, and
// what comes after a resume counts again.
func TestCutReachesWhatIsOnItsWay(t *testing.T) {
	p, e, _ := withCircuit(t)
	placed := send(p, e, 0)
	e.Drain(at(1), DrainOrder{Cut: true})
	select {
	case <-e.Cut():
	default:
		t.Error("a call that asks only now is not cut")
	}
	placed.EndAttempt(at(1), Truncated)
	if err := e.Resume(at(2)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.Cut():
		t.Error("after the resume calls are still cut")
	default:
	}
	fail(p, e, 3, 5, EngineError)
	if !down(e, 3) {
		t.Error("its failures do not count any more")
	}
}

// An operator who resumes has no order standing, though the configuration drains
// the server still.
func TestResumeEndsTheOrderUnderAConfiguredDrain(t *testing.T) {
	p, list, _ := checked(t, Checks{}, "a:1")
	a := list[0]
	a.Drain(at(1), DrainOrder{Limit: time.Hour})
	p.Start(bound(t, p, Member{Address: "a:1", Drain: true}), at(2))
	if err := a.Resume(at(3)); !errors.Is(err, ErrDrainConfigured) {
		t.Fatal(err)
	}
	if d := p.Status(at(3)).Endpoints[0].Drain; d == nil || d.By != "configuration" || !d.Until.IsZero() {
		t.Errorf("drain is %+v", d)
	}
	p.Start(bound(t, p, Member{Address: "a:1"}), at(4))
	if s := stateAt(a, 4); s != Up {
		t.Errorf("it is %s once the configuration has changed", s)
	}
}

// What an old page said of an engine is no proof that it is empty now, and one that
// answers no more cannot keep anybody waiting.
func TestDrainedGoesByAFreshPage(t *testing.T) {
	p, list, _ := checked(t, Checks{}, "a:1")
	a := list[0]
	stale := p.Current().Scrape.StaleAfter.Seconds()
	a.ObserveSignals(page(1, 0, 0))
	a.Drain(at(2), DrainOrder{})
	if s := stateAt(a, 2); s != Draining {
		t.Errorf("it is %s by a page from before the order", s)
	}
	a.ObserveSignals(page(3, 2, 0))
	if s := stateAt(a, 3+stale-1); s != Draining {
		t.Errorf("it is %s while two of others run there", s)
	}
	if s := stateAt(a, 3+stale); s != Drained {
		t.Errorf("it is %s long after its engine has stopped", s)
	}
}

// A server that is taken out of the configuration is seen to drain until its last
// stream has ended. Named again after that it is a new one, and no order stands.
func TestRemovedEndpointDrains(t *testing.T) {
	p, list, news := checked(t, Checks{}, "a:1", "b:1")
	a, old := list[0], p.Current()
	a.Drain(at(0), DrainOrder{})
	if err := a.Resume(at(0)); err != nil {
		t.Fatal(err)
	}
	*news = nil
	open := send(p, a, 1)
	p.Start(bound(t, p, Member{Address: "b:1"}), at(2))
	p.Stop(old, at(2))
	p.Unbind(old)
	p.Notice(at(3))
	rows := p.Status(at(3)).Endpoints
	if len(rows) != 2 || rows[1].Address != "a:1" || rows[1].State != "draining" || rows[1].Reason != "no longer configured; 1 open here" {
		t.Errorf("rows %+v", rows)
	}
	a.Drain(at(4), DrainOrder{})
	if err := a.Resume(at(4)); !errors.Is(err, ErrDrainRemoved) {
		t.Errorf("resumed though the configuration does not name it: %v", err)
	}
	open.EndAttempt(at(5), Served)
	if rows := p.Status(at(5)).Endpoints; len(rows) != 1 {
		t.Errorf("%d rows after its last stream", len(rows))
	}
	want := []string{"up > draining no longer configured; 1 open here", "draining > drained no longer configured"}
	if !slices.Equal(*news, want) {
		t.Errorf("told %q, want %q", *news, want)
	}
	p.Start(bound(t, p, Member{Address: "a:1"}), at(6))
	if row := p.Status(at(6)).Endpoints[0]; row.Drain != nil || row.State == "draining" {
		t.Errorf("named again it is %s, %+v", row.State, row.Drain)
	}
}

// Who resumes a server at once after its restart has it get nothing before it is
// ready: the check that passed last was the old process's.
func TestResumeWaitsForACheck(t *testing.T) {
	ask := func(e *Endpoint, sec float64, v CheckVerdict) {
		e.ObserveReadiness(at(sec), CheckResult{Began: at(sec), Verdict: v, Reason: "said so"}, usualReadiness)
	}
	passed := func(_ *Pool, e *Endpoint) { ask(e, 1, CheckPassed) }
	for name, test := range map[string]struct {
		checks Checks
		before func(p *Pool, e *Endpoint)
		want   State
	}{
		"has passed before":     {Checks{}, passed, Starting},
		"was never asked":       {Checks{}, func(*Pool, *Endpoint) {}, Up},
		"cannot be asked":       {Checks{}, func(p *Pool, e *Endpoint) { passed(p, e); ask(e, 1, CheckUnsuitable) }, Up},
		"is not asked any more": {Checks{Readiness: Readiness{Off: true}}, passed, Up},
		"has not drained yet":   {Checks{}, func(p *Pool, e *Endpoint) { passed(p, e); send(p, e, 1) }, Up},
		"has failed": {Checks{}, func(p *Pool, e *Endpoint) {
			passed(p, e)
			for range 3 {
				ask(e, 1, CheckFailed)
			}
		}, Down},
	} {
		t.Run(name, func(t *testing.T) {
			p, list, _ := checked(t, test.checks, "a:1")
			e := list[0]
			test.before(p, e)
			e.Drain(at(2), DrainOrder{})
			if err := e.Resume(at(3)); err != nil {
				t.Fatal(err)
			}
			if s := stateAt(e, 3); s != test.want {
				t.Errorf("after the resume it is %s, want %s", s, test.want)
			}
			if test.want != Starting {
				return
			}
			ask(e, 4, CheckNotReady)
			if s := stateAt(e, 4); s != Starting {
				t.Errorf("while it loads it is %s", s)
			}
			ask(e, 5, CheckPassed)
			if s := stateAt(e, 5); s != Up {
				t.Errorf("when a check has passed it is %s", s)
			}
		})
	}
}

// A limit that is over is never shown as one to come, also where nobody has looked.
func TestALimitIsNeverBelowZero(t *testing.T) {
	p, list, _ := checked(t, Checks{}, "a:1")
	send(p, list[0], 0)
	list[0].Drain(at(0), DrainOrder{Limit: 10 * time.Second})
	for sec, want := range map[float64]string{9: "1 open here; limit in 1s", 10: "limit of 10s is over; 1 open here", 22: "limit of 10s is over; 1 open here"} {
		if got := p.Status(at(sec)).Endpoints[0].Reason; got != want {
			t.Errorf("after %vs: %q, want %q", sec, got, want)
		}
	}
}
