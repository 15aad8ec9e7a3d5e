package llmlb

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// checked is a pool of the endpoints given, whose checks are on, and what is told
// of their states.
func checked(t *testing.T, checks Checks, addresses ...string) (p *Pool, list []*Endpoint, news *[]string) {
	t.Helper()
	p = NewPool("checked")
	s := settings(p.Name())
	for _, a := range addresses {
		s.Members = append(s.Members, Member{Address: a, Name: a})
	}
	s.Checks = checks
	if err := p.Bind(s); err != nil {
		t.Fatal(err)
	}
	news = new([]string)
	p.OnState(func(c Change) {
		*news = append(*news, strings.TrimSpace(c.From.String()+" > "+c.To.String()+" "+c.Reason))
	})
	p.Start(s, t0)
	return p, p.Endpoints(), news
}

func stateAt(e *Endpoint, sec float64) State {
	e.pool.Lock()
	defer e.pool.Unlock()
	s, _, _ := e.State(at(sec))
	return s
}

var usualReadiness = Readiness{Fails: 3, Passes: 2}

// walk has the endpoint checked once a second, by a letter each: p passed, f failed,
// n 503, l loads, u cannot be asked, s too slow. It returns the first letter of its
// state after each.
func walk(e *Endpoint, from float64, checks string) (states string) {
	verdicts := map[rune]CheckVerdict{'p': CheckPassed, 'f': CheckFailed, 's': CheckFailed, 'n': CheckNotReady, 'l': CheckLoading, 'u': CheckUnsuitable}
	for i, c := range checks {
		sec := from + float64(i)
		r := CheckResult{Began: at(sec - 0.5), Verdict: verdicts[c], Slow: c == 's'}
		if c != 'p' {
			r.Reason = "check said " + string(c)
		}
		e.ObserveReadiness(at(sec), r, usualReadiness)
		states += stateAt(e, sec).String()[:1]
	}
	return states
}

func TestReadiness(t *testing.T) {
	for name, test := range map[string]struct{ checks, states string }{
		"single blips do not remove a server":              {"fpfpffpp", "uuuuuuuu"},
		"three failures do, and two passes bring it back":  {"pfffpfpp", "uuuddddu"},
		"a server that loads is none that fails":           {"lllp", "sssu"},
		"503 before the first pass is a start":             {"nnnnp", "ssssu"},
		"503 after it is a failure":                        {"pnnnp", "uuudd"},
		"a start that ends in failures":                    {"nffff", "sssdd"},
		"one that fails and then loads has been restarted": {"ffflp", "uudsu"},
		"one without such a path is taken as it is":        {"uuu", "uuu"},
		"also when it had one before":                      {"fffu", "uudu"},
	} {
		t.Run(name, func(t *testing.T) {
			_, list, _ := checked(t, Checks{Readiness: usualReadiness}, "a:1")
			if got := walk(list[0], 1, test.checks); got != test.states {
				t.Errorf("%s gives %s, want %s", test.checks, got, test.states)
			}
		})
	}
}

// A saturated engine that streams tokens and does not answer its health page in
// time stays in use; one that answers that it is broken does not.
func TestProgressIsLife(t *testing.T) {
	for name, test := range map[string]struct {
		checks, states string
		progress       bool
	}{
		"busy":            {"psssss", "uuuuuu", true},
		"hangs":           {"psssss", "uuuddd", false},
		"says it is dead": {"pnnn", "uuud", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, list, _ := checked(t, Checks{Readiness: usualReadiness}, "a:1")
			e, states := list[0], ""
			for i := range test.checks {
				sec := float64(i + 1)
				if test.progress {
					e.Progressed(at(sec - 0.1))
				}
				states += walk(e, sec, test.checks[i:i+1])
			}
			if states != test.states {
				t.Errorf("%s gives %s, want %s", test.checks, states, test.states)
			}
		})
	}
}

// goneUntil has nobody reach the endpoint from second 2 on, until its port is open
// again.
func goneUntil(e *Endpoint, sec float64) {
	for range downAfter {
		e.NotReached(at(2), "connection refused")
	}
	e.Reached(at(sec))
}

// A server whose port is open again after a restart may still load its model. It
// gets nothing before its check has passed.
func TestReturnIsChecked(t *testing.T) {
	_, list, news := checked(t, Checks{Readiness: usualReadiness}, "a:1")
	e := list[0]
	walk(e, 1, "p")
	goneUntil(e, 3)
	if s := stateAt(e, 3); s != Starting {
		t.Errorf("it is %s as soon as its port is open", s)
	}
	if got := walk(e, 4, "llp"); got != "ssu" {
		t.Errorf("it is %s while it loads", got)
	}
	want := []string{"up > down connection refused", "down > starting has come back; not checked yet", "starting > up"}
	if !slices.Equal(*news, want) {
		t.Errorf("told %q, want %q", *news, want)
	}
}

// One that was never seen to pass is not held to it: it may have no such page.
func TestReturnOfOneThatCannotBeChecked(t *testing.T) {
	_, list, _ := checked(t, Checks{Readiness: usualReadiness}, "a:1")
	e := list[0]
	walk(e, 1, "u")
	goneUntil(e, 3)
	if s := stateAt(e, 3); s != Up {
		t.Errorf("it is %s", s)
	}
}

func TestMustPass(t *testing.T) {
	p, list, news := checked(t, Checks{Readiness: usualReadiness, MustPass: true}, "a:1", "b:1")
	if s := stateAt(list[0], 0); s != Starting {
		t.Errorf("it is %s before it was checked", s)
	}
	if p.OutSince(p.Current(), at(1)).IsZero() {
		t.Error("the pool says that it can be used")
	}
	if got := walk(list[0], 1, "p"); got != "u" {
		t.Errorf("it is %s after its check", got)
	}
	if !slices.Equal(*news, []string{"starting > up"}) {
		t.Errorf("told %q", *news)
	}
	walk(list[1], 1, "u")
	if row := p.Status(at(2)).Endpoints[1]; row.Reason != "has not passed a check yet; readiness cannot be asked: check said u" {
		t.Errorf("reason %q", row.Reason)
	}
	list[1].ObserveCanary(at(2), CheckResult{Verdict: CheckPassed}, Canary{Fails: 3})
	if s := stateAt(list[1], 2); s != Up {
		t.Errorf("it is %s after its canary has passed", s)
	}
}

// Turning the checks off lets everything work, and old failures do not come back
// when they are turned on again.
func TestChecksOff(t *testing.T) {
	p, list, _ := checked(t, Checks{Readiness: usualReadiness}, "a:1")
	walk(list[0], 1, "fff")
	next := bound(t, p, Member{Address: "a:1"})
	next.Checks.Readiness.Off = true
	p.Start(next, at(5))
	if s := stateAt(list[0], 5); s != Up {
		t.Errorf("it is %s without the check", s)
	}
	p.Stop(next, at(6))
	if got := walk(list[0], 6, "fff"); got != "uud" {
		t.Errorf("it is %s with the check again", got)
	}
}

// When checks have taken out every server, those whose real traffic does not fail
// are used all the same, unless the operator wants otherwise.
func TestAllDown(t *testing.T) {
	for name, test := range map[string]struct {
		refuse bool
		break_ func(p *Pool, list []*Endpoint)
		serves bool
	}{
		"a bad path":     {false, func(*Pool, []*Endpoint) {}, true},
		"refused":        {true, func(*Pool, []*Endpoint) {}, false},
		"traffic of one": {false, func(p *Pool, list []*Endpoint) { fail(p, list[0], 5, 1, EngineError) }, true},
		"traffic of all": {false, func(p *Pool, list []*Endpoint) {
			fail(p, list[0], 5, 1, EngineError)
			fail(p, list[1], 5, 1, EngineError)
		}, false},
		"one drains": {false, func(_ *Pool, list []*Endpoint) { list[0].Drain(at(5), DrainOrder{}) }, true},
		"both drain": {false, func(_ *Pool, list []*Endpoint) {
			list[0].Drain(at(5), DrainOrder{})
			list[1].Drain(at(5), DrainOrder{})
		}, false},
		"one comes back":   {false, func(_ *Pool, list []*Endpoint) { walk(list[0], 5, "pp") }, false},
		"one starts again": {false, func(_ *Pool, list []*Endpoint) { walk(list[0], 5, "l") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, list, _ := checked(t, Checks{Readiness: usualReadiness, Refuse: test.refuse}, "a:1", "b:1")
			for _, e := range list {
				walk(e, 1, "fff")
			}
			test.break_(p, list)
			if got := p.AllDown(at(7)); got != test.serves {
				t.Errorf("serves although all are down: %v", got)
			}
			if st := p.Status(at(7)); st.AllDown != test.serves || st.AllRefused != test.refuse {
				t.Errorf("the status says %v and %v", st.AllDown, st.AllRefused)
			}
			if usable := p.OutSince(p.Current(), at(7)).IsZero(); usable != (test.serves || name == "one comes back") {
				t.Errorf("can be used: %v", usable)
			}
		})
	}
}

// A frozen engine fails one canary after the other, and is out with the third. Two
// that pass bring it back; so does what it generates for a client.
func TestCanary(t *testing.T) {
	want := Canary{Interval: time.Second, Fails: 3}
	_, list, news := checked(t, Checks{Canary: want}, "a:1")
	e := list[0]
	try := func(sec float64, v CheckVerdict, want_ State) {
		t.Helper()
		r := CheckResult{Began: at(sec - 0.5), Verdict: v, Slow: v == CheckFailed, Reason: "no token within 10s"}
		if v == CheckPassed {
			r.Reason = ""
		}
		e.ObserveCanary(at(sec), r, want)
		if s := stateAt(e, sec); s != want_ {
			t.Errorf("at %v: it is %s, want %s", sec, s, want_)
		}
	}
	try(1, CheckFailed, Up)
	try(2, CheckFailed, Up)
	try(3, CheckPassed, Up)
	try(4, CheckFailed, Up)
	try(5, CheckFailed, Up)
	try(6, CheckFailed, Down)
	try(7, CheckPassed, Down)
	try(8, CheckPassed, Up)
	for sec := 9.0; sec < 12; sec++ {
		try(sec, CheckFailed, map[bool]State{true: Down, false: Up}[sec == 11])
	}
	try(12, CheckUnsuitable, Up) // it answers, whatever it has been before
	want12 := []string{"up > down canary: no token within 10s", "down > up", "up > down canary: no token within 10s", "down > up"}
	if !slices.Equal(*news, want12) {
		t.Errorf("told %q", *news)
	}
	if n := e.Checks(CanaryCheck, CheckFailed); n != 8 {
		t.Errorf("%d failures counted", n)
	}
}

// An idle endpoint whose first token takes ten times as long as it used to is
// degraded, gets a smaller share, and is well again when it is as fast as before.
// One slow answer is none; neither are slow ones of a busy endpoint.
func TestDegraded(t *testing.T) {
	canary := Canary{Interval: time.Second, Fails: 3}
	p, list, news := checked(t, Checks{Canary: canary}, "a:1")
	e, sec := list[0], 0.0
	try := func(n int, ttft time.Duration, idle bool) State {
		for range n {
			sec++
			e.ObserveCanary(at(sec), CheckResult{Verdict: CheckPassed, TTFT: ttft, Idle: idle}, canary)
		}
		return stateAt(e, sec)
	}
	if s := try(10, 100*time.Millisecond, true); s != Up {
		t.Fatalf("%s", s)
	}
	if s := try(2, time.Second, true); s != Up {
		t.Errorf("%s after two slow ones", s)
	}
	try(1, 100*time.Millisecond, true)
	if s := try(10, time.Second, false); s != Up {
		t.Errorf("%s by what was slow under load", s)
	}
	if s := try(3, time.Second, true); s != Degraded {
		t.Errorf("%s after three slow ones", s)
	}
	p.Lock()
	share := e.Share(at(sec), p.current())
	p.Unlock()
	if share >= 0.5 || share <= 0 {
		t.Errorf("its share is %v", share)
	}
	if s := try(3, 100*time.Millisecond, true); s != Up {
		t.Errorf("%s when it is fast again", s)
	}
	if len(*news) != 2 || !strings.HasPrefix((*news)[0], "up > degraded first token after 1s when idle, usually 1") {
		t.Errorf("told %q", *news)
	}
}

// A change that is there to stay becomes the rule in time.
func TestDegradedIsNotForEver(t *testing.T) {
	canary := Canary{Interval: time.Second, Fails: 3}
	_, list, _ := checked(t, Checks{Canary: canary}, "a:1")
	e := list[0]
	for i := range 400 {
		ttft := 100 * time.Millisecond
		if i > 10 {
			ttft = time.Second
		}
		e.ObserveCanary(at(float64(i)), CheckResult{Verdict: CheckPassed, TTFT: ttft, Idle: true}, canary)
		if s := stateAt(e, float64(i)); i == 30 && s != Degraded {
			t.Fatalf("%s", s)
		}
	}
	if s := stateAt(e, 400); s != Up {
		t.Errorf("it is %s for ever", s)
	}
}

// A server whose KV memory is full is overloaded since it became so, not since the
// last page that said it again.
func TestOverloadedSince(t *testing.T) {
	p, list, _ := checked(t, Checks{}, "a:1")
	p.current().KVLimit = 0.95
	for sec := 1.0; sec < 5; sec++ {
		s := page(sec, 1, 0)
		s.KVUsage = 0.97
		list[0].ObserveSignals(s)
		p.Notice(at(sec + 0.5))
	}
	row := p.Status(at(5)).Endpoints[0]
	if row.State != "overloaded" || !row.Since.Equal(at(1.5)) {
		t.Errorf("%s since %v", row.State, row.Since.Sub(t0))
	}
}
