package llmlb

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// withCircuit is a pool of one endpoint with the usual circuit, and what is told
// of its state.
func withCircuit(t *testing.T) (p *Pool, e *Endpoint, news *[]string) {
	t.Helper()
	p = NewPool("circuit")
	s := settings(p.Name(), Member{Address: "a:1"})
	s.Circuit = usualCircuit
	if err := p.Bind(s); err != nil {
		t.Fatal(err)
	}
	p.Start(s, t0)
	news = new([]string)
	p.OnState(func(c Change) {
		*news = append(*news, strings.TrimSpace(c.From.String()+" > "+c.To.String()+" "+c.Reason))
	})
	return p, s.Members[0].Endpoint, news
}

// send begins a Call at the endpoint, be it barred or not.
func send(p *Pool, e *Endpoint, sec float64) *Call {
	c := NewCall(p, p.Current(), at(sec))
	c.InputTokens, c.Stream = 100, true
	c.Lease = take(p, e, at(sec))
	return c
}

func fail(p *Pool, e *Endpoint, sec float64, n int, o Outcome) {
	for range n {
		send(p, e, sec).EndAttempt(at(sec), o)
	}
}

func down(e *Endpoint, sec float64) bool {
	e.pool.Lock()
	defer e.pool.Unlock()
	return e.Down(at(sec))
}

// A server that answers 500 at once, though it looks idle and its health page is
// fine, gets nothing after its fifth failure but one request now and then, and is
// back with the first answer.
func TestCircuitOfAnEndpoint(t *testing.T) {
	p, e, news := withCircuit(t)
	fail(p, e, 0, 4, EngineError)
	if down(e, 0) {
		t.Fatal("down after four failures")
	}
	fail(p, e, 0, 1, EngineError)
	e.Reached(at(1)) // its metrics page still answers
	if !down(e, 1) || e.CircuitOpenings() != 1 {
		t.Fatalf("down %v, opened %d times", down(e, 1), e.CircuitOpenings())
	}
	row := p.Status(at(6)).Endpoints[0]
	if row.State != "down" || row.Reason != "circuit open: 5 failures in a row, the last: engine_error" || row.Next != "trial in 4s" ||
		row.Circuit != "open" || !row.RetryAt.Equal(at(10)) || !row.Since.Equal(at(0)) {
		t.Errorf("row %+v", row)
	}
	if row := p.Status(at(10)).Endpoints[0]; row.Circuit != "half-open" || row.Next != "trial due" || !row.RetryAt.IsZero() {
		t.Errorf("when the trial is due: %+v", row)
	}
	trial := send(p, e, 10)
	if !down(e, 10) {
		t.Error("another is let through beside the trial")
	}
	if row := p.Status(at(10)).Endpoints[0]; row.Circuit != "half-open" || row.Next != "trial under way" || row.State != "down" {
		t.Errorf("during the trial: %+v", row)
	}
	trial.EndAttempt(at(12), Served)
	if row := p.Status(at(12)).Endpoints[0]; row.State != "up" || row.Circuit != "closed" || row.Reason != "" || !row.Since.Equal(at(12)) {
		t.Errorf("after it: %+v", row)
	}
	want := []string{"up > down circuit open: 5 failures in a row, the last: engine_error", "down > up"}
	if !slices.Equal(*news, want) {
		t.Errorf("told %q, want %q", *news, want)
	}
}

// Clients whose prompts are too long, or who have no key, do not take a server
// out; and as a trial they are none.
func TestRefusedRequestsSayNothingOfTheEngine(t *testing.T) {
	for _, status := range []int{400, 401, 404, 413, 422} {
		p, e, _ := withCircuit(t)
		for range 30 {
			c := send(p, e, 0)
			c.Status = status
			c.EndAttempt(at(0), Served)
		}
		fail(p, e, 0, 5, EngineError)
		if !down(e, 1) {
			t.Fatalf("%d counts as a success", status)
		}
		c := send(p, e, 10)
		c.Status = status
		c.EndAttempt(at(10), Served)
		if down(e, 10) || p.Status(at(10)).Endpoints[0].Circuit != "half-open" {
			t.Errorf("%d as the answer to a trial has decided something", status)
		}
	}
}

// A list of models is neither a trial nor does it tell how an engine generates.
func TestWhatGeneratesNothingIsNoTrial(t *testing.T) {
	p, e, _ := withCircuit(t)
	visit := func(sec float64, o Outcome) {
		c := NewCall(p, p.Current(), at(sec))
		p.Lock()
		c.Lease = p.Reserve(e, at(sec), Work{})
		p.Unlock()
		c.EndAttempt(at(sec), o)
	}
	for range 10 {
		visit(0, EngineError)
	}
	if down(e, 0) {
		t.Error("down after ten failed visits")
	}
	fail(p, e, 0, 5, EngineError)
	visit(10, Served)
	if p.Status(at(10)).Endpoints[0].Circuit != "half-open" {
		t.Error("a visit has closed the circuit")
	}
}

// The pool's news and what the table says agree, whatever happens in whatever
// order: down by one of two causes is down, and only the last to go brings it
// back.
func TestNewsAgreeWithTheState(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			p, e, _ := withCircuit(t)
			state := func(now time.Time) State {
				p.Lock()
				defer p.Unlock()
				s, _, _ := e.State(now)
				return s
			}
			told := Up
			now := t0
			p.OnState(func(c Change) {
				if (told == Down) == (c.To == Down) || (c.From == Down) != (told == Down) || c.To != state(now) || c.From == c.To {
					t.Fatalf("told of %v > %v, when it was %v and is %v", c.From, c.To, told, state(now))
				}
				if (c.Reason == "") != (c.To == Up) {
					t.Errorf("%v > %v because %q", c.From, c.To, c.Reason)
				}
				told = c.To
			})
			var open []*Call
			tokens := 1000.0
			for range 500 {
				now = now.Add(time.Duration(random.IntN(1500)) * time.Millisecond)
				switch random.IntN(8) {
				case 0, 1:
					c := NewCall(p, p.Current(), now)
					c.InputTokens, c.Lease = 100, take(p, e, now)
					open = append(open, c)
				case 2, 3, 4:
					if len(open) > 0 {
						i := random.IntN(len(open))
						open[i].EndAttempt(now, []Outcome{Served, EngineError, EngineError, Truncated, FirstTokenTimeout, Overloaded, ClientGone, Unreachable}[random.IntN(8)])
						open = slices.Delete(open, i, i+1)
					}
				case 5:
					e.NotReached(now, "connection refused")
				case 6:
					if random.IntN(3) == 0 {
						e.Reached(now)
					} else {
						e.NoteOverload(now, time.Duration(random.IntN(3))*time.Second)
					}
				case 7:
					s := NoSignals(now)
					if tokens += 10; random.IntN(30) == 0 {
						tokens = 0 // a restart
					}
					s.Running, s.GenerationTokens = 1, tokens
					e.ObserveSignals(s)
				}
				if is := state(now); (is == Down) != (told == Down) {
					t.Fatalf("it is %v, and the last that was told is %v", is, told)
				}
			}
			for _, c := range open {
				c.EndAttempt(now, ClientGone)
			}
			if e.ledger.own != (account{}) || e.circuit.trial != 0 || len(e.quiet) != 0 {
				t.Errorf("left: %+v, trial %d, %d quiet", e.ledger.own, e.circuit.trial, len(e.quiet))
			}
		})
	}
}

// Another process has other faults: an engine that was restarted is in use at
// once, and what the old one left behind neither opens its circuit nor takes the
// place of its trial.
func TestRestartClosesTheCircuit(t *testing.T) {
	p, e, news := withCircuit(t)
	counted := func(sec, tokens float64) {
		s := page(sec, 1, 0)
		s.GenerationTokens = tokens
		e.ObserveSignals(s)
	}
	counted(0, 5000)
	var old []*Call
	for range 20 {
		old = append(old, send(p, e, 0))
	}
	fail(p, e, 1, 5, FirstTokenTimeout)
	e.NoteOverload(at(1), 20*time.Second)
	trial := send(p, e, 11)
	counted(12, 0)
	if down(e, 12) {
		t.Fatal("still down after the restart")
	}
	if row := p.Status(at(12)).Endpoints[0]; row.State != "up" || row.Circuit != "closed" {
		t.Errorf("row %+v", row)
	}
	for _, c := range old {
		c.EndAttempt(at(13), Truncated)
	}
	if down(e, 13) {
		t.Error("down by the calls that died with the old process")
	}
	fail(p, e, 14, 5, EngineError)
	second := send(p, e, 24)
	trial.EndAttempt(at(25), Truncated)
	if !down(e, 25) {
		t.Error("the old process's trial has given the place of the new one's away")
	}
	second.EndAttempt(at(26), Served)
	if down(e, 26) {
		t.Error("still down")
	}
	if len(*news) != 4 || (*news)[1] != "down > up" {
		t.Errorf("told %q", *news)
	}
}

// 'circuit off' and a reload bring back what the circuit has taken out.
func TestSettingsWithoutACircuitCloseIt(t *testing.T) {
	p, e, news := withCircuit(t)
	fail(p, e, 0, 5, EngineError)
	old := p.Current()
	next := bound(t, p, Member{Address: "a:1"})
	p.Start(next, at(1))
	if down(e, 1) || !slices.Equal((*news)[1:], []string{"down > up"}) {
		t.Errorf("down %v, told %q", down(e, 1), *news)
	}
	fail(p, e, 2, 50, EngineError)
	if down(e, 2) {
		t.Error("opened again without thresholds")
	}
	c := send(p, e, 3)
	c.Settings = old // one that began under the old configuration goes by that
	c.EndAttempt(at(3), EngineError)
	if !down(e, 3) {
		t.Error("a Call of the old configuration has no circuit")
	}
	p.Stop(next, at(4))
	if !down(e, 4) {
		t.Error("the old configuration, current again, has a circuit")
	}
}

// A draining server prints draining, whatever else is the matter with it, and
// nobody is told that it is down.
func TestDrainingHidesTheCircuit(t *testing.T) {
	p, e, news := withCircuit(t)
	fail(p, e, 0, 5, EngineError)
	next := bound(t, p, Member{Address: "a:1", Drain: true})
	next.Circuit = usualCircuit
	p.Start(next, at(1))
	send(p, e, 10).EndAttempt(at(10), EngineError)
	if row := p.Status(at(11)).Endpoints[0]; row.State != "drained" || row.Next != "" {
		t.Errorf("row %+v", row)
	}
	if want := []string{"up > down circuit open: 5 failures in a row, the last: engine_error", "down > draining 1 open here"}; !slices.Equal(*news, want) {
		t.Errorf("told %q", *news)
	}
}

func TestNextInWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Nanosecond:         "100ms",
		250 * time.Millisecond:  "300ms",
		1200 * time.Millisecond: "1.2s",
		2950 * time.Millisecond: "3s",
		3 * time.Second:         "3s",
		3100 * time.Millisecond: "4s",
		79 * time.Second:        "1m19s",
	} {
		if got := inWords(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// A request that makes one server after the other fail in the same way says more
// of itself than of them: it counts against the first alone.
func TestOneRequestCountsAgainstOneServer(t *testing.T) {
	p := NewPool("poison")
	s := bound(t, p, Member{Address: "a:1"}, Member{Address: "b:1"})
	s.Circuit = Circuit{Failures: 3, OpenFor: time.Second}
	a, b := s.Members[0].Endpoint, s.Members[1].Endpoint
	state := func(e *Endpoint) State {
		p.Lock()
		defer p.Unlock()
		st, _, _ := e.State(at(1))
		return st
	}
	for range 10 {
		c := NewCall(p, s, t0)
		c.InputTokens = 10
		for _, e := range []*Endpoint{a, b} {
			c.Lease = take(p, e, t0)
			c.EndAttempt(at(1), EngineError)
		}
	}
	if state(a) != Down || state(b) != Up {
		t.Errorf("a is %v and b is %v, want down and up", state(a), state(b))
	}
	// Where the first was full, the next is the first to fail.
	for range 3 {
		c := NewCall(p, s, at(1))
		c.InputTokens = 10
		for i, e := range []*Endpoint{a, b} {
			c.Lease = take(p, e, at(1))
			c.EndAttempt(at(1), []Outcome{Overloaded, EngineError}[i])
		}
	}
	if state(b) != Down {
		t.Errorf("b is %v after three failures of its own", state(b))
	}
}

// That an engine cannot do something is no proof that it does anything.
func TestWhatAnEngineCannotDoProvesNothing(t *testing.T) {
	p, e, _ := withCircuit(t)
	fail(p, e, 0, 100, EngineError)
	sec := 1.0
	for ; down(e, sec); sec++ {
		if sec > 100 {
			t.Fatal("there is no trial")
		}
	}
	c := send(p, e, sec)
	c.Status = 501
	c.EndAttempt(at(sec), Served)
	p.Lock()
	defer p.Unlock()
	if e.Circuit(at(sec)) == CircuitClosed {
		t.Error("501 has closed the circuit")
	}
}
