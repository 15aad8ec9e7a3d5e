package llmlb

import (
	"testing"
	"time"
)

func hasLost(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// A readiness path that is wrong takes both servers out, and must not end the long
// answers that they are about to give: each such end would count as a failure of
// real traffic, and the pool would then serve nobody.
func TestAWrongPathEndsNoAnswer(t *testing.T) {
	p, list, _ := checked(t, Checks{Readiness: usualReadiness}, "a:1", "b:1")
	lostA, lostB := list[0].Lost(), list[1].Lost()
	for _, e := range list {
		walk(e, 1, "ffffff")
	}
	if hasLost(lostA) || hasLost(lostB) {
		t.Error("those who wait there are told that they wait in vain")
	}
	if !p.AllDown(at(7)) {
		t.Error("the pool does not serve all the same")
	}
}

// A server that does not answer at all is given up by those who wait there, but not
// the last one: there would be nobody to go to.
func TestAHungServerIsGivenUp(t *testing.T) {
	_, list, _ := checked(t, Checks{Readiness: usualReadiness}, "a:1", "b:1")
	lostA, lostB := list[0].Lost(), list[1].Lost()
	walk(list[0], 1, "sss")
	if !hasLost(lostA) {
		t.Error("those who wait at the first wait on")
	}
	walk(list[1], 1, "sssss")
	if hasLost(lostB) {
		t.Error("those who wait at the last are sent away")
	}
}

// One 404 or 401, a proxy's perhaps, takes nothing away from a server that has
// passed, also where it must.
func TestMustPassForgivesOneOddAnswer(t *testing.T) {
	_, list, _ := checked(t, Checks{Readiness: usualReadiness, MustPass: true}, "a:1")
	if got := walk(list[0], 1, "pup"); got != "uuu" {
		t.Errorf("it is %s", got)
	}
}

// A server that has come back and is too busy at once to answer its health page is
// ready by what it generates.
func TestReturnOfABusyServer(t *testing.T) {
	_, list, _ := checked(t, Checks{Readiness: usualReadiness}, "a:1")
	e := list[0]
	walk(e, 1, "p")
	goneUntil(e, 3)
	e.Progressed(at(3.9))
	if got := walk(e, 4, "s"); got != "u" {
		t.Errorf("it is %s", got)
	}
}

// A server that was drained by the configuration and is not any more warms up,
// whoever notices first.
func TestWarmUpAfterAConfiguredDrain(t *testing.T) {
	checks := Checks{WarmUp: 30 * time.Second}
	p, list, _ := checked(t, checks, "a:1", "b:1")
	for sec, drain := range map[float64]bool{10: true} {
		next := bound(t, p, Member{Address: "a:1", Drain: drain}, Member{Address: "b:1"})
		next.Checks = checks
		p.Start(next, at(sec))
		p.Notice(at(sec + 1))
	}
	again := bound(t, p, Member{Address: "a:1"}, Member{Address: "b:1"})
	again.Checks = checks
	p.Start(again, at(20)) // without circuits, which has every state looked at
	if s := shareAt(list[0], 20); s != coldShare {
		t.Errorf("its share is %v", s)
	}
}

// What a slow canary has an engine generate is no sign that it generates for others.
func TestACanaryIsNotItsOwnAlibi(t *testing.T) {
	want := Canary{Interval: time.Second, Fails: 3}
	_, list, _ := checked(t, Checks{Canary: want}, "a:1")
	e := list[0]
	for i := range 4 {
		sec := float64(10 * (i + 1))
		for j, tokens := range []float64{0, 5} { // a token a second, by its counters
			s := page(sec+float64(j)*4, 1, 0)
			s.GenerationTokens = float64(10*i) + tokens
			e.ObserveSignals(s)
		}
		e.ObserveCanary(at(sec+5), CheckResult{Began: at(sec), Verdict: CheckFailed, Slow: true, Own: true, Reason: "no end"}, want)
	}
	if s := stateAt(e, 60); s != Down {
		t.Errorf("it is %s", s)
	}
}

// Streams that began before canaries failed say nothing of what the server
// generates now.
func TestOldAnswersForgiveNoCanary(t *testing.T) {
	want := Canary{Interval: time.Second, Fails: 3}
	p, list, _ := checked(t, Checks{Canary: want}, "a:1")
	e := list[0]
	old := []*Call{send(p, e, 0), send(p, e, 0), send(p, e, 0)}
	for sec := 1.0; sec < 4; sec++ {
		e.ObserveCanary(at(sec), CheckResult{Began: at(sec), Verdict: CheckFailed, Reason: "nonsense"}, want)
	}
	for _, c := range old {
		c.EndAttempt(at(5), Served)
	}
	if s := stateAt(e, 5); s != Down {
		t.Errorf("it is %s", s)
	}
}

// The check that was under way when a server went away says nothing of the one that
// comes back.
func TestAnOldCheckIsNoReturn(t *testing.T) {
	_, list, _ := checked(t, Checks{Readiness: usualReadiness}, "a:1")
	e := list[0]
	walk(e, 1, "p")
	goneUntil(e, 2.1)
	e.ObserveReadiness(at(2.2), CheckResult{Began: at(1.9), Verdict: CheckPassed}, usualReadiness)
	if s := stateAt(e, 2.2); s != Starting {
		t.Errorf("it is %s", s)
	}
	if got := walk(e, 3, "p"); got != "u" {
		t.Errorf("it is %s", got)
	}
}

// A server that the configuration had drained has to pass again when it does not any
// more: it may have been exchanged meanwhile.
func TestReturnFromAConfiguredDrain(t *testing.T) {
	checks := Checks{Readiness: usualReadiness}
	p, list, _ := checked(t, checks, "a:1")
	walk(list[0], 1, "p")
	for sec, drain := range []bool{true, false} {
		next := bound(t, p, Member{Address: "a:1", Drain: drain})
		next.Checks = checks
		p.Start(next, at(float64(10*sec+10)))
	}
	if s := stateAt(list[0], 20); s != Starting {
		t.Errorf("it is %s", s)
	}
	if got := walk(list[0], 21, "p"); got != "u" {
		t.Errorf("it is %s", got)
	}
}
