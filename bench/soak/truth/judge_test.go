package truth

import (
	"testing"
	"time"
)

// at is a moment of a test, in milliseconds.
func at(ms int) time.Time { return time.UnixMilli(1_000_000 + int64(ms)) }

// made is a generation at an engine from one moment to another.
func made(engine string, from, to, pieces int) Generation {
	g := Generation{Name: engine + "-1", Engine: engine, Fault: NoFault, Began: at(from), Pieces: pieces}
	if to > 0 {
		g.Ended = at(to)
	}
	return g
}

func failed(engine string, from, to int, fault Fault) Generation {
	g := made(engine, from, to, 0)
	g.Fault = fault
	return g
}

// served is a request that got a whole answer of engine a.
func served() Request {
	return Request{
		ID: "r1", Pool: "main", Stream: true, Sent: at(0), First: at(20), Ended: at(100), Status: 200, Endpoint: "a",
		Answer: read("r1", stream("r1", "a-1")), End: Clean,
	}
}

// with changes a request.
func with(r Request, how func(*Request)) Request {
	how(&r)
	return r
}

func cutShort(r *Request) {
	r.Answer, r.End, r.Err = read("r1", stream("r1", "a-1")[:4]), Broken, "unexpected EOF"
}

func status(code int, word string) func(*Request) {
	return func(r *Request) {
		r.Status, r.Code, r.Answer, r.First, r.Endpoint = code, word, NewAnswer("r1"), time.Time{}, ""
	}
}

func ended(end End) func(*Request) {
	return func(r *Request) {
		status(0, "")(r)
		r.End = end
	}
}

func spell(kind, engine string, from, to int) []Spell {
	return []Spell{{Kind: kind, Engine: engine, Pool: "main", From: at(from), To: at(to)}}
}

// What clients and servers say must fit together, and what went wrong must have a
// cause that is known.
func TestJudge(t *testing.T) {
	rules := Rules{Attempts: map[string]int{"main": 3, "once": 1}, Tries: 3, Once: map[string]bool{"once": true}, Slack: time.Second}
	whole := made("a", 10, 90, 5)
	once := func(r *Request) { r.Pool = "once" }
	for _, tc := range []struct {
		name   string
		r      Request
		made   []Generation
		spells []Spell
		word   string
		want   string
	}{
		{"served", served(), []Generation{whole}, nil, "whole", ""},
		{"served by the second", served(), []Generation{failed("b", 1, 5, ResetEarly), whole}, nil, "whole", ""},
		{"told in another order", served(), []Generation{whole, failed("b", 1, 5, ResetEarly)}, nil, "whole", ""},
		{"a server that had stood still reads it late", served(), []Generation{whole, made("b", 60, 61, 0)}, spell(Stopped, "b", -50, 60), "whole", ""},
		{"a busy server reads late what was given up", served(), []Generation{whole, {Name: "b-1", Engine: "b", Fault: NoFault, Began: at(60), Ended: at(61), Left: true}}, nil, "whole", ""},
		{"[DONE] was never sent", with(served(), func(r *Request) { r.Answer = read("r1", stream("r1", "a-1")[:8]) }), []Generation{{Name: "a-1", Engine: "a", Fault: NoDone, Began: at(10), Ended: at(90), Pieces: 5}}, nil, "whole", ""},
		{"[DONE] was lost", with(served(), func(r *Request) { r.Answer = read("r1", stream("r1", "a-1")[:8]) }), []Generation{whole}, nil, "whole", "cut silently"},
		{"an event was spoilt", with(served(), func(r *Request) {
			l := stream("r1", "a-1")
			l[3] = "data: {"
			r.Answer = read("r1", l)
		}), []Generation{whole}, nil, "whole", "garbage"},

		{"cut by the server", with(served(), cutShort), []Generation{{Name: "a-1", Engine: "a", Fault: CutLate, Began: at(10), Ended: at(90), Pieces: 5}}, nil, "cut", ""},
		{"cut, the server was killed", with(served(), cutShort), []Generation{made("a", 10, 0, 3)}, spell(Killed, "a", 50, 5000), "cut in trouble", ""},
		{"cut, another server was killed", with(served(), cutShort), []Generation{whole}, spell(Killed, "b", 50, 5000), "cut", "cut for nothing"},
		{"cut, the server had been killed long before", with(served(), cutShort), []Generation{whole}, spell(Killed, "a", -500, 5), "cut", "cut for nothing"},
		{"cut, and nothing had happened", with(served(), cutShort), []Generation{whole}, nil, "cut", "cut for nothing"},
		{"cut, only drained", with(served(), cutShort), []Generation{whole}, spell(Drained, "a", 50, 5000), "cut", "cut for nothing"},
		{"an error event, and nothing had happened", with(served(), func(r *Request) {
			r.Answer = read("r1", append(stream("r1", "a-1")[:4], `data: {"error":{"message":"x"}}`))
		}), []Generation{whole}, nil, "cut", "cut for nothing"},
		{"cut and clean", with(served(), func(r *Request) { cutShort(r); r.End = Clean }), []Generation{failed("a", 10, 90, CutLate)}, nil, "whole", "cut silently, doubled"},
		{"a reader that stopped", with(served(), func(r *Request) { cutShort(r); r.Slow = true }), []Generation{whole}, nil, "cut", ""},

		{"nobody generated it", served(), nil, nil, "whole", "mixed up"},
		{"more came than was sent", served(), []Generation{made("a", 10, 90, 4)}, nil, "whole", "doubled"},
		{"another is named", with(served(), func(r *Request) { r.Endpoint = "b" }), []Generation{whole}, nil, "whole", "mixed up"},
		{"begun again after the first token", served(), []Generation{whole, made("b", 50, 80, 2)}, nil, "whole", "spliced, asked again"},
		{"begun again, and the first answer used", with(served(), func(r *Request) { r.First = at(90) }), []Generation{made("a", 10, 40, 5), made("b", 50, 80, 2)}, nil, "whole", "spliced"},
		{"two at a time", served(), []Generation{made("b", 1, 5000, 9), whole}, nil, "whole", "asked again"},
		{"seven servers", served(), []Generation{
			failed("b", 1, 2, Status500), failed("c", 1, 2, Status500), failed("d", 1, 2, Status500), failed("e", 1, 2, Status500),
			failed("f", 1, 2, Status500), failed("g", 1, 2, Status500), whole,
		}, nil, "whole", "asked again"},
		{"refused by two where once is allowed", with(served(), once), []Generation{failed("b", 1, 2, Status429), failed("c", 3, 4, EarlyRefusal), whole}, nil, "whole", ""},
		{"twice where once is allowed", with(served(), once), []Generation{failed("b", 1, 5, Status500), whole}, nil, "whole", "asked again"},
		{"a refusal first where once is allowed", with(served(), once), []Generation{failed("b", 1, 5, Status503), whole}, nil, "whole", ""},
		{"another body", served(), []Generation{{Name: "a-1", Engine: "a", Fault: NoFault, Began: at(10), Ended: at(90), Pieces: 5, BodyWrong: true}}, nil, "whole", "corrupt"},
		{"generated by a draining server", served(), []Generation{whole}, spell(Drained, "a", 0, 500), "whole", "undrained"},
		{"sent before the drain to a server that stood still", served(), []Generation{whole}, []Spell{
			{Kind: Drained, Engine: "a", Pool: "main", From: at(0), To: at(500)}, {Kind: Stopped, Engine: "a", From: at(-100), To: at(9)},
		}, "whole", ""},
		{"a server that had stood still reads it while another generates", served(), []Generation{
			made("a", 10, 5000, 5), {Name: "b-1", Engine: "b", Fault: NoFault, Began: at(60), Ended: at(61), Left: true},
		}, nil, "whole", ""},
		{"generated before the drain", served(), []Generation{whole}, spell(Drained, "a", 11, 500), "whole", ""},
		{"it never ends", served(), []Generation{failed("b", 1, 0, Silence), whole}, nil, "whole", "asked again, abandoned"},

		{"all servers failed", with(served(), status(500, "")), []Generation{failed("a", 1, 2, Status500), failed("b", 3, 4, ResetEarly), failed("c", 5, 6, Status503)}, nil, "refused", ""},
		{"one server failed", with(served(), status(500, "")), []Generation{failed("a", 1, 2, Status500)}, nil, "refused", "refused for nothing"},
		{"one server failed where once is allowed", with(with(served(), status(500, "")), once), []Generation{failed("a", 1, 2, Status500)}, nil, "refused", ""},
		{"refused, and nobody asked", with(served(), status(503, "no_endpoint")), nil, nil, "refused", "refused for nothing"},
		{"refused while a server was dead", with(served(), status(502, "upstream_error")), nil, spell(Killed, "b", -100, 3000), "refused", "refused for nothing"},
		{"refused while a server was dead, where once is allowed", with(with(served(), status(502, "upstream_error")), once), nil, spell(Killed, "b", -100, 3000), "refused in trouble", ""},
		{"refused while a server was dead and two failed", with(served(), status(500, "")), []Generation{failed("a", 1, 2, Status500), failed("c", 5, 6, Status503)}, spell(Killed, "b", -100, 3000), "refused in trouble", ""},
		{"refused while a server drained", with(served(), status(503, "no_endpoint")), nil, spell(Drained, "b", -100, 3000), "refused", "refused for nothing"},
		{"over its limit", with(served(), func(r *Request) { status(429, "tenant_concurrent")(r); r.Bounded = true }), nil, nil, "limited", ""},
		{"over a limit that it has not", with(served(), status(429, "tenant_concurrent")), nil, nil, "refused", "refused for nothing"},
		{"blamed by the engine", with(served(), status(400, "")), []Generation{failed("a", 1, 2, BadRequest)}, nil, "bad request", ""},
		{"blamed by nobody", with(served(), status(400, "")), []Generation{whole}, nil, "refused", "refused for nothing"},
		{"an error cut short", with(served(), func(r *Request) { status(500, "")(r); r.End = Broken }), []Generation{failed("a", 1, 2, Status500)}, nil, "refused", "cut for nothing"},

		{"no answer at all", with(served(), ended(TurnedAway)), nil, nil, "turned away", "lost"},
		{"no answer at all, during a reload", with(served(), ended(TurnedAway)), nil, spell(Reload, "", 50, 500), "turned away", ""},
		{"no answer, during a reload, but a server was asked", with(served(), ended(TurnedAway)), []Generation{whole}, spell(Reload, "", 50, 500), "turned away", "lost"},
		{"nothing more came", with(served(), func(r *Request) { cutShort(r); r.End = Hung }), []Generation{whole}, nil, "lost", "lost"},

		{"the client left", with(served(), ended(Left)), []Generation{made("a", 10, 150, 3)}, nil, "left", ""},
		{"the client left, the server goes on", with(served(), ended(Left)), []Generation{made("a", 10, 2000, 9)}, nil, "left", "abandoned"},
		{"the client left, and a server is asked", with(served(), ended(Left)), []Generation{made("a", 2000, 2001, 9)}, nil, "left", "asked again, abandoned"},
		{"the client left, the server stood still", with(served(), ended(Left)), []Generation{made("a", 10, 2000, 3)}, spell(Stopped, "a", 50, 2000), "left", ""},
	} {
		word, lies := rules.Judge(tc.r, tc.made, tc.spells)
		if got := kinds(lies); got != tc.want || word != tc.word {
			t.Errorf("%s: it is %q with %q, want %q with %q: %v", tc.name, word, got, tc.word, tc.want, lies)
		}
	}
}

// What was held after the warm-up may be held at the end, and what is tolerated
// beside it; no more.
func TestLeaks(t *testing.T) {
	base := Level{Goroutines: 50, Descriptors: 20, HeapBytes: 40e6, Series: 2000}
	room := Room{Goroutines: 5, Descriptors: 5, HeapBytes: 1e6, Series: 10}
	for _, tc := range []struct {
		name string
		is   Level
		want int
	}{
		{"as before", base, 0},
		{"less", Level{}, 0},
		{"as much as may be", Level{55, 25, 41e6, 2010}, 0},
		{"goroutines", Level{56, 20, 40e6, 2000}, 1},
		{"descriptors", Level{50, 26, 40e6, 2000}, 1},
		{"heap", Level{50, 20, 42e6, 2000}, 1},
		{"lines of metrics", Level{50, 20, 40e6, 2011}, 1},
		{"everything", Level{500, 200, 400e6, 20000}, 4},
	} {
		if got := tc.is.Leaks(base, room); len(got) != tc.want {
			t.Errorf("%s: %q, want %d leaks", tc.name, got, tc.want)
		}
	}
}

// Memory that climbs to the end is told from memory that has found its level.
func TestGrows(t *testing.T) {
	ramp := func(n int, f func(i int) float64) (s []float64) {
		for i := range n {
			s = append(s, f(i))
		}
		return s
	}
	for _, tc := range []struct {
		name   string
		series []float64
		want   bool
	}{
		{"flat", ramp(90, func(int) float64 { return 100 }), false},
		{"flat with peaks", ramp(90, func(i int) float64 { return 100 + 200*float64(i%10/9) }), false},
		{"found its level", ramp(90, func(i int) float64 { return min(100, 10+5*float64(i)) }), false},
		{"climbs", ramp(90, func(i int) float64 { return 100 + float64(i) }), true},
		{"too short to tell", nil, false},
	} {
		if got := Grows(Thirds(tc.series), 0.1, 5); got != tc.want {
			t.Errorf("%s: grows is %v, thirds %v", tc.name, got, Thirds(tc.series))
		}
	}
}
