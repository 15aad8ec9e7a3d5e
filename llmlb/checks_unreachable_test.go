package llmlb

import "testing"

// A server that was stopped, and whose readiness nobody could ask for meanwhile,
// is in use again with the first check that passes: that it could not be reached
// is one fault and not two.
func TestWhoComesBackPassesOneCheck(t *testing.T) {
	p := NewPool("unreachable")
	s := settings(p.Name(), Member{Address: "a:1"})
	want := Readiness{Fails: 3, Passes: 2}
	if err := p.Bind(s); err != nil {
		t.Fatal(err)
	}
	p.Start(s, t0)
	e := s.Members[0].Endpoint
	check := func(sec float64, v CheckVerdict) {
		e.ObserveReadiness(at(sec), CheckResult{Began: at(sec), Verdict: v, Reason: "connection refused"}, want)
	}
	check(0, CheckPassed)
	for i := range 6 {
		e.NotReached(at(float64(1+i)), "connection refused")
		check(float64(1+i), CheckFailed)
	}
	if row := p.Status(at(7)).Endpoints[0]; row.State != "down" || row.Reason != "connection refused" {
		t.Fatalf("row %+v", row)
	}
	e.Reached(at(8))
	if row := p.Status(at(8)).Endpoints[0]; row.State != "starting" {
		t.Errorf("its port is open, and it is %s for %q, want starting", row.State, row.Reason)
	}
	check(8, CheckPassed)
	if row := p.Status(at(8)).Endpoints[0]; row.State != "up" {
		t.Errorf("after a check that passed it is %s for %q", row.State, row.Reason)
	}
}

// Where nothing is scraped and no path is named nobody asks a server whether it is
// ready, so that it waits for no answer when it is back.
func TestWithoutAnEngineNobodyWaitsForReadiness(t *testing.T) {
	p := NewPool("none")
	s := settings(p.Name(), Member{Address: "a:1"})
	if err := p.Bind(s); err != nil {
		t.Fatal(err)
	}
	p.Start(s, t0)
	e := s.Members[0].Endpoint
	e.ObserveReadiness(t0, CheckResult{Began: t0, Verdict: CheckPassed}, Readiness{})
	other := settings(p.Name(), Member{Address: "a:1"})
	other.Scrape.Engine = "none"
	if err := p.Bind(other); err != nil {
		t.Fatal(err)
	}
	p.Start(other, at(1))
	for i := range 3 {
		e.NotReached(at(float64(2+i)), "connection refused")
	}
	e.Reached(at(6))
	if row := p.Status(at(6)).Endpoints[0]; row.State != "up" {
		t.Errorf("it is %s for %q", row.State, row.Reason)
	}
}
