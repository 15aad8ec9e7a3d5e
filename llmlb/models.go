package llmlb

import (
	"encoding/binary"
	"slices"
	"time"
	"unique"

	"github.com/cespare/xxhash/v2"
)

// Model is one entry of an engine's own list of what it serves.
type Model struct {
	ID string

	// Parent is the base model of an adapter (LoRA); empty for a base model.
	Parent string

	// Raw is the whole entry as a JSON object, or nil where nothing but its ID
	// is kept: then there is nothing more to tell clients of it. It is valid by
	// the strict rules: UTF-8, and no name twice.
	Raw []byte

	// Implied says that the engine does not list this name but answers to it,
	// as Ollama does to names without their tag.
	Implied bool
}

// modelsKeep is how long a list of models is believed. It is read again far more
// often; a server whose list cannot be read any more is judged like one that has
// none.
const modelsKeep = 5 * time.Minute

// served is what an endpoint is known to serve: names by their hash, sorted, so
// that a choice over a thousand endpoints hashes the request's model once.
type served struct {
	names    []uint64
	adapters []uint64              // those of names that are adapters
	list     []string              // the names themselves, for people
	id       unique.Handle[string] // equal for equal names and adapters
	entries  *modelList
	at       time.Time

	resident resident
}

// resident is what an engine holds ready of all that it serves.
type resident struct {
	told  bool
	names []uint64 // newest first
	kind  Loadable
	load  float64 // seconds to make another one ready

	// expected are names that our own calls have made the engine load, and since
	// when, newest last.
	expected []expectation
}

type expectation struct {
	name uint64
	at   time.Time
}

// maxExpected bounds them.
const maxExpected = 16

// ModelHash is the hash by which model names are compared.
func ModelHash(name string) uint64 { return xxhash.Sum64String(name) }

// ObserveModels takes in the list of models that the endpoint serves.
func (e *Endpoint) ObserveModels(now time.Time, list []Model) {
	var s served
	s.at = now
	for _, m := range list {
		h := ModelHash(m.ID)
		s.names = append(s.names, h)
		s.list = append(s.list, m.ID)
		if m.Parent != "" && m.Parent != m.ID {
			s.adapters = append(s.adapters, h)
		}
	}
	slices.Sort(s.names)
	slices.Sort(s.adapters)
	slices.Sort(s.list)
	s.entries = newModelList(list)
	s.id = unique.Make(hashesOf(s.names) + hashesOf(s.adapters))
	e.pool.mu.Lock()
	s.resident = e.served.resident
	e.served = s
	e.touch()
	e.pool.mu.Unlock()
}

// Serves reports whether the endpoint serves the model, by its own list. Without
// a list of late nothing is known. Under the pool's lock.
func (e *Endpoint) Serves(model uint64, now time.Time) (yes, known bool) {
	s := &e.served
	if !s.believed(now) {
		return false, false
	}
	_, yes = slices.BinarySearch(s.names, model)
	return yes, true
}

// believed reports whether there is a list, of late.
func (s *served) believed(now time.Time) bool {
	return len(s.names) > 0 && now.Sub(s.at) <= modelsKeep
}

// LoadDelay returns the seconds that the endpoint would need to make the model
// ready: an adapter, or a model that is loaded on demand. 0 when it is ready,
// and when nothing is known of it. While it is being loaded for another of our
// calls it is half of what is left: to have it loaded twice costs the pool twice.
// Under the pool's lock.
func (e *Endpoint) LoadDelay(model uint64, now time.Time) float64 {
	r := &e.served.resident
	if !r.told || slices.Contains(r.names, model) {
		return 0
	}
	if r.kind == LoadsAdapters {
		if _, adapter := slices.BinarySearch(e.served.adapters, model); !adapter {
			return 0 // a base model, which is always there
		}
	}
	for i := range r.expected {
		if x := &r.expected[i]; x.name == model {
			if passed := now.Sub(x.at).Seconds(); passed < expectFor*r.load {
				return max(0, r.load-passed) / 2
			}
		}
	}
	return r.load
}

// expectFor is for how many times the usual time something is taken to be
// loading. Without it every call that comes meanwhile would have another engine
// load the same.
const expectFor = 6

// expect notes that the engine begins to load the model for a call of ours.
func (r *resident) expect(model uint64, now time.Time) {
	for i := range r.expected {
		if x := &r.expected[i]; x.name == model {
			if now.Sub(x.at).Seconds() >= expectFor*r.load {
				x.at = now
			}
			return
		}
	}
	if len(r.expected) == maxExpected {
		r.expected = slices.Delete(r.expected, 0, 1)
	}
	r.expected = append(r.expected, expectation{model, now})
}

// giveUp forgets what a call that began then was to have the engine load.
func (r *resident) giveUp(begun time.Time) {
	r.expected = slices.DeleteFunc(r.expected, func(x expectation) bool { return x.at.Equal(begun) })
}

// observe takes in what a scrape said. Of adapters it tells those in use; the
// ones that were in use before stay in memory while there is room.
func (r *resident) observe(s *Signals) {
	if s.Loads == LoadsNothing || r.told && r.kind != s.Loads {
		*r = resident{} // perhaps another engine stands there now
	}
	if s.Loads == LoadsNothing {
		return
	}
	r.told, r.kind, r.load = true, s.Loads, s.LoadSeconds
	room := len(s.Resident)
	if s.Loads == LoadsAdapters {
		room = max(room, s.ResidentMax)
	}
	names := make([]uint64, 0, room)
	for _, name := range s.Resident {
		names = append(names, ModelHash(name))
	}
	for _, h := range r.names {
		if len(names) < room && !slices.Contains(names, h) {
			names = append(names, h)
		}
	}
	r.names = names
	r.expected = slices.DeleteFunc(r.expected, func(x expectation) bool { return slices.Contains(names, x.name) })
}

// hashesOf writes hashes down, and how many they are.
func hashesOf(list []uint64) string {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 8*(len(list)+1)), uint64(len(list)))
	for _, h := range list {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	return string(b)
}
