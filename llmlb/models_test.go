package llmlb

import (
	"slices"
	"testing"
	"time"
)

func one(t *testing.T) (*Pool, *Endpoint) {
	t.Helper()
	p := NewPool("models")
	s := bound(t, p, Member{Address: "a:1"})
	p.Start(s, t0)
	return p, s.Members[0].Endpoint
}

// A request goes only to servers whose own list has its model. Without a list,
// or with one that nobody could read for minutes, any server may be asked.
func TestServesWhatItsListSays(t *testing.T) {
	list := []Model{{ID: "qwen"}, {ID: "llama"}, {ID: "sql", Parent: "llama"}}
	for _, tc := range []struct {
		name       string
		list       []Model
		age        time.Duration
		model      string
		yes, known bool
	}{
		{"in the list", list, 0, "llama", true, true},
		{"an adapter", list, 0, "sql", true, true},
		{"not in the list", list, 0, "gpt", false, true},
		{"letter case counts", list, 0, "Llama", false, true},
		{"a part of a name", list, 0, "lla", false, true},
		{"nearly too old", list, modelsKeep, "gpt", false, true},
		{"too old", list, modelsKeep + 1, "llama", false, false},
		{"an empty list", []Model{}, 0, "llama", false, false},
		{"never read", nil, 0, "llama", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, e := one(t)
			if tc.list != nil {
				e.ObserveModels(t0, tc.list)
			}
			yes, known := e.Serves(ModelHash(tc.model), t0.Add(tc.age))
			if yes != tc.yes || known != tc.known {
				t.Errorf("serves %v, known %v; want %v and %v", yes, known, tc.yes, tc.known)
			}
		})
	}
}

// The newest list is the one that counts, and the one that is shown.
func TestANewListReplacesTheOld(t *testing.T) {
	p, e := one(t)
	e.ObserveSignals(page(0, 0, 0))
	e.ObserveModels(t0, []Model{{ID: "old"}, {ID: "both"}})
	e.ObserveModels(at(1), []Model{{ID: "new"}, {ID: "both"}})
	for model, want := range map[string]bool{"old": false, "both": true, "new": true} {
		if yes, _ := e.Serves(ModelHash(model), at(2)); yes != want {
			t.Errorf("serves %q: %v, want %v", model, yes, want)
		}
	}
	if got := p.Status(at(2)).Endpoints[0].Models; !slices.Equal(got, []string{"both", "new"}) {
		t.Errorf("shown models %q", got)
	}
}

// What a process served is not known of the next one.
func TestARestartForgetsTheList(t *testing.T) {
	_, e := one(t)
	s := page(0, 0, 0)
	s.PromptTokens = 1000
	s.Loads, s.Resident, s.LoadSeconds = LoadsModels, []string{"llama"}, 20
	e.ObserveSignals(s)
	e.ObserveModels(t0, []Model{{ID: "llama"}})
	next := page(1, 0, 0)
	next.PromptTokens = 0
	e.ObserveSignals(next)
	if _, known := e.Serves(ModelHash("llama"), at(1)); known {
		t.Error("the list outlived the process")
	}
	if got := e.LoadDelay(ModelHash("gpt"), t0); got != 0 {
		t.Errorf("load delay %v of a process that has told nothing", got)
	}
}

// scrape is a page that says what is held ready.
func scrape(sec float64, kind Loadable, room int, resident ...string) Signals {
	s := page(sec, 0, 0)
	s.Loads, s.Resident, s.ResidentMax, s.LoadSeconds = kind, resident, room, 0.5
	return s
}

// A server that has the adapter or the model loaded is preferred by the seconds
// that loading would take; where nothing is told nothing is added.
func TestLoadDelay(t *testing.T) {
	adapters := []Model{{ID: "base"}, {ID: "sql", Parent: "base"}, {ID: "law", Parent: "base"}, {ID: "med", Parent: "base"}, {ID: "self", Parent: "self"}}
	for _, tc := range []struct {
		name   string
		list   []Model
		pages  []Signals
		model  string
		loaded bool
	}{
		{"nothing told", adapters, []Signals{page(0, 0, 0)}, "sql", true},
		{"adapter in use", adapters, []Signals{scrape(0, LoadsAdapters, 2, "sql")}, "sql", true},
		{"adapter not in use", adapters, []Signals{scrape(0, LoadsAdapters, 2, "sql")}, "law", false},
		{"no adapter in use", adapters, []Signals{scrape(0, LoadsAdapters, 2)}, "law", false},
		{"base model", adapters, []Signals{scrape(0, LoadsAdapters, 2, "sql")}, "base", true},
		{"a model that is its own parent", adapters, []Signals{scrape(0, LoadsAdapters, 2)}, "self", true},
		{"adapters without a list", nil, []Signals{scrape(0, LoadsAdapters, 2, "sql")}, "law", true},
		{"adapter used before, with room", adapters, []Signals{
			scrape(0, LoadsAdapters, 2, "sql"), scrape(1, LoadsAdapters, 2, "law"),
		}, "sql", true},
		{"adapter used before, and pushed out", adapters, []Signals{
			scrape(0, LoadsAdapters, 2, "sql"), scrape(1, LoadsAdapters, 2, "law"), scrape(2, LoadsAdapters, 2, "med"),
		}, "sql", false},
		{"adapter used before, then idle", adapters, []Signals{
			scrape(0, LoadsAdapters, 2, "sql"), scrape(1, LoadsAdapters, 2), scrape(2, LoadsAdapters, 2),
		}, "sql", true},
		{"more in use than it said it has room for", adapters, []Signals{scrape(0, LoadsAdapters, 1, "sql", "law")}, "law", true},
		{"model loaded", nil, []Signals{scrape(0, LoadsModels, 0, "llama:8b")}, "llama:8b", true},
		{"model not loaded", nil, []Signals{scrape(0, LoadsModels, 0, "llama:8b")}, "qwen:7b", false},
		{"no model loaded", nil, []Signals{scrape(0, LoadsModels, 0)}, "qwen:7b", false},
		{"model unloaded since", nil, []Signals{
			scrape(0, LoadsModels, 0, "llama:8b"), scrape(1, LoadsModels, 0, "qwen:7b"),
		}, "llama:8b", false},
		{"a page that says nothing of it", nil, []Signals{
			scrape(0, LoadsModels, 0, "llama:8b"), page(1, 0, 0), // another engine stands there now
		}, "qwen:7b", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, e := one(t)
			if tc.list != nil {
				e.ObserveModels(t0, tc.list)
			}
			for _, s := range tc.pages {
				e.ObserveSignals(s)
			}
			want := 0.5
			if tc.loaded {
				want = 0
			}
			if got := e.LoadDelay(ModelHash(tc.model), t0); got != want {
				t.Errorf("delay %v s, want %v", got, want)
			}
		})
	}
}

// The list is read seldom, the metrics page every second: neither takes away
// what the other has told.
func TestListAndPageDoNotEraseEachOther(t *testing.T) {
	_, e := one(t)
	list := []Model{{ID: "base"}, {ID: "sql", Parent: "base"}, {ID: "law", Parent: "base"}}
	e.ObserveSignals(scrape(0, LoadsAdapters, 2, "sql"))
	e.ObserveModels(at(1), list)
	e.ObserveSignals(scrape(2, LoadsAdapters, 2, "sql"))
	if e.LoadDelay(ModelHash("sql"), t0) != 0 || e.LoadDelay(ModelHash("law"), t0) == 0 {
		t.Error("what is loaded was lost")
	}
	if yes, known := e.Serves(ModelHash("law"), at(3)); !yes || !known {
		t.Error("the list was lost")
	}
}
