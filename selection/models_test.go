package selection

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// models has the endpoint list what it serves.
func (w *world) models(address string, list ...llmlb.Model) {
	w.endpoint(address).ObserveModels(w.now, list)
}

// A request goes to a server that serves its model, when it is known which do.
func TestOnlyServersOfTheModelAreTaken(t *testing.T) {
	a, b, c := addresses(3)[0], addresses(3)[1], addresses(3)[2]
	ask := func(w *world, model string) map[string]int {
		got := map[string]int{}
		for i := range 30 {
			p := prompt(part{fmt.Sprint(model, i), 50})
			p.Model = model
			at, _ := w.serve(p)
			got[at]++
		}
		return got
	}
	w := newWorld(t, a, b, c)
	w.models(a, llmlb.Model{ID: "small"})
	w.models(b, llmlb.Model{ID: "small"}, llmlb.Model{ID: "large"})
	if got := ask(w, "large"); got[a] != 0 || got[b] == 0 || got[c] == 0 {
		t.Errorf("large: %v; want none at the first, which has only small, and some at the third, which tells nothing", got)
	}
	if got := ask(w, "unheard-of"); len(got) != 3 {
		t.Errorf("a model on nobody's list: %v; want all, since some engines answer to any name", got)
	}

	if got := ask(w, "large:my-adapter"); got[a] != 0 {
		t.Errorf("an adapter behind the model's name, as SGLang takes it: %v; want none at the first", got)
	}

	t.Run("full is not wrong", func(t *testing.T) {
		w := newWorld(t, a, b)
		w.settings.Members[1].MaxConcurrent = 1
		w.models(a, llmlb.Model{ID: "small"})
		w.models(b, llmlb.Model{ID: "large"})
		p := prompt(part{"x", 50})
		p.Model = "large"
		w.grant(p)
		if v := Grant(w.call(p), w.now); v != Full {
			t.Errorf("the only server of the model is at its limit: %v, want Full", v)
		}
	})
	t.Run("old lists count for nothing", func(t *testing.T) {
		w := newWorld(t, a, b)
		w.models(a, llmlb.Model{ID: "small"})
		w.models(b, llmlb.Model{ID: "large"})
		w.now = w.now.Add(time.Hour)
		if got := ask(w, "large"); got[a] == 0 {
			t.Errorf("an hour later: %v; want both", got)
		}
	})
}

// An adapter is served where it is in memory already, unless that costs more
// than loading it.
func TestAdaptersGoWhereTheyAreLoaded(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	loaded := addresses(3)[1]
	for _, m := range w.settings.Members {
		w.models(m.Address, llmlb.Model{ID: "base"}, llmlb.Model{ID: "lora-1", Parent: "base"}, llmlb.Model{ID: "lora-2", Parent: "base"})
		s := llmlb.NoSignals(w.now)
		s.Running, s.Waiting = 0, 0
		s.Loads, s.ResidentMax, s.LoadSeconds = llmlb.LoadsAdapters, 2, 0.5
		if m.Address == loaded {
			s.Resident = []string{"lora-1"}
		}
		m.Endpoint.ObserveSignals(s)
	}
	used := map[string]map[string]int{}
	for _, model := range []string{"base", "lora-1"} {
		used[model] = map[string]int{}
		for i := range 30 {
			p := prompt(part{fmt.Sprint(model, i), 50})
			p.Model = model
			at, _ := w.serve(p)
			used[model][at]++
		}
	}
	if used["lora-1"][loaded] != 30 {
		t.Errorf("lora-1: %v, want all at %s", used["lora-1"], loaded)
	}
	if len(used["base"]) != 3 {
		t.Errorf("base: %v, want all three", used["base"])
	}

	for range 40 { // and that server becomes busy
		c := w.grant(prompt(part{fmt.Sprint("busy", w.now), 4000}))
		if where(c) != loaded {
			c.EndAttempt(w.now, llmlb.Refused)
		}
		w.now = w.now.Add(time.Millisecond)
	}
	w.scrape(loaded, 64, 40, 0.9)
	p := prompt(part{"one more", 50})
	p.Model = "lora-1"
	if at, _ := w.serve(p); at == loaded {
		t.Error("lora-1 waits behind forty requests rather than being loaded elsewhere")
	}
}

// While a model is being loaded, the calls that come for it wait where it is
// loaded, instead of having every server load it and give up its own.
func TestAModelIsNotLoadedEverywhere(t *testing.T) {
	w := newWorld(t, addresses(4)...)
	for _, m := range w.settings.Members {
		s := llmlb.NoSignals(w.now)
		s.Loads, s.LoadSeconds, s.Resident = llmlb.LoadsModels, 10, []string{"own:" + m.Address}
		m.Endpoint.ObserveSignals(s)
	}
	at := map[string]int{}
	for i := range 12 {
		p := prompt(part{fmt.Sprint("question ", i), 200})
		p.Model = "wanted"
		at[where(w.grant(p))]++
		w.now = w.now.Add(300 * time.Millisecond)
	}
	if len(at) > 2 {
		t.Errorf("twelve calls within a few seconds have the model loaded by %d servers: %v", len(at), at)
	}
}

// A sleeping engine answers its health check and cannot generate.
func TestASleepingServerGetsNothing(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	s := llmlb.NoSignals(w.now)
	s.Running, s.Waiting, s.Sleeping = 0, 0, true
	w.endpoint(addresses(2)[0]).ObserveSignals(s)
	w.scrape(addresses(2)[1], 30, 5, 0.5)
	for i := range 20 {
		if at, _ := w.serve(prompt(part{fmt.Sprint(i), 50})); at == addresses(2)[0] {
			t.Fatal("a request went to a server that sleeps")
		}
	}
}
