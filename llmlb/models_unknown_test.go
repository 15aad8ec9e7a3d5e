package llmlb

import (
	"strings"
	"testing"
	"time"
)

var unknownNow = t0.Add(time.Minute)

// A request is refused for its model only when every server would refuse it.
func TestUnknownModel(t *testing.T) {
	strict := func(checks bool) Signals {
		s := page(30, 0, 0)
		s.ChecksModels = checks
		return s
	}
	type server struct {
		list  string // names, or "-" for no list
		age   time.Duration
		loose bool // the engine takes names that are not on its list, or may
		mute  bool // no metrics
		drain bool
	}
	for _, tc := range []struct {
		name    string
		servers []server
		model   string
		want    bool
	}{
		{"on no list", []server{{list: "m"}, {list: "n"}}, "nope", true},
		{"on one", []server{{list: "m"}, {list: "n"}}, "n", false},
		{"spaces make another name", []server{{list: "m"}}, " m ", true},
		{"letter case too", []server{{list: "m"}}, "M", true},
		{"no name", []server{{list: "m"}}, "", false},
		{"a name that no list can hold", []server{{list: "m"}}, strings.Repeat("x", 257), false},
		{"one that cannot be shown", []server{{list: "m"}}, "m\n", false},
		{"a server without a list", []server{{list: "m"}, {list: "-"}}, "nope", false},
		{"an empty list", []server{{list: "m"}, {list: ""}}, "nope", false},
		{"an old list", []server{{list: "m"}, {list: "n", age: modelsFresh + 1}}, "nope", false},
		{"an engine that takes any name", []server{{list: "m"}, {list: "n", loose: true}}, "nope", false},
		{"an engine that nothing is known of", []server{{list: "m"}, {list: "n", mute: true}}, "nope", false},
		{"a server that takes nothing new", []server{{list: "m"}, {list: "-", drain: true}}, "nope", true},
		{"but has it", []server{{list: "m"}, {list: "n", drain: true}}, "n", false},
		{"none that takes anything", []server{{list: "m", drain: true}}, "nope", false},
		{"no server", nil, "nope", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, s := several(t, len(tc.servers))
			for i, v := range tc.servers {
				e := s.Members[i].Endpoint
				if !v.mute {
					e.ObserveSignals(strict(!v.loose))
				}
				if v.list != "-" {
					var list []Model
					for id := range strings.FieldsSeq(v.list) {
						list = append(list, Model{ID: id})
					}
					e.ObserveModels(unknownNow.Add(-v.age), list)
				}
				p.Lock()
				e.drain.set(&e.drain.configured, v.drain, t0)
				p.Unlock()
			}
			if got := p.UnknownModel(s, tc.model, unknownNow); got != tc.want {
				t.Errorf("unknown: %v, want %v", got, tc.want)
			}
			if n := testing.AllocsPerRun(100, func() { p.UnknownModel(s, tc.model, unknownNow) }); n != 0 {
				t.Errorf("asking takes %v allocations", n)
			}
			if p.UnknownModel(s, "nope", unknownNow.Add(modelsFresh)) {
				t.Error("lists that nobody has renewed still refuse")
			}
			if p.UnknownModel(nil, "nope", unknownNow) {
				t.Error("a pool without settings refuses")
			}
		})
	}
}

// An engine that has begun to load adapters since, or has been replaced by another,
// is judged by what it is now.
func TestUnknownModelFollowsThePage(t *testing.T) {
	p, s := several(t, 1)
	e := s.Members[0].Endpoint
	sig := page(0, 0, 0)
	sig.ChecksModels, sig.PromptTokens = true, 1000
	e.ObserveSignals(sig)
	e.ObserveModels(t0, []Model{{ID: "m"}})
	if !p.UnknownModel(s, "nope", at(1)) {
		t.Fatal("not unknown to the first engine")
	}
	sig = page(2, 0, 0)
	sig.PromptTokens = 1001
	e.ObserveSignals(sig)
	if p.UnknownModel(s, "nope", at(2)) {
		t.Error("refused though the engine takes other names now")
	}
	sig = page(3, 0, 0)
	sig.ChecksModels, sig.PromptTokens = true, 0
	e.ObserveSignals(sig)
	if p.UnknownModel(s, "nope", at(3)) {
		t.Error("refused by the list of the process before")
	}
}
