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
		"cuts at once":  {DrainOrder{Cut: true}, 1, true, "limit of 0s is over; 1 open here"},
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
