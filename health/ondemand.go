package health

import (
	"math"
	"slices"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// OnDemand is how an engine tells what it holds ready of that which it loads
// when a request names it: LoRA adapters, or whole models.
type OnDemand struct {
	Kind llmlb.Loadable

	// Family is the one whose labels tell. Of adapters there is a series for
	// every state that ever was, and its value is the time at which it was so:
	// only the latest counts. Of models there is one series for each.
	Family string

	// Names are the labels that hold names; those of adapters hold lists with
	// commas.
	Names []string

	// Room is the label that says how many adapters there is room for.
	Room string

	// Seconds is how long it takes to load another one.
	Seconds float64
}

// maxResident and maxRoom bound what is kept of such names.
const (
	maxResident = 256
	maxRoom     = 4096
)

// readOnDemand notes what the engine holds ready.
func (d *Dialect) readOnDemand(f *families, s *llmlb.Signals) {
	o := &d.OnDemand
	switch o.Kind {
	case llmlb.LoadsAdapters:
		latest := math.Inf(-1)
		for _, m := range f.byName[o.Family].GetMetric() {
			v := m.GetUntyped().GetValue()
			if math.IsNaN(v) || math.IsInf(v, 0) || v <= latest {
				continue
			}
			latest = v
			room, ok := number(label(m, o.Room))
			if !ok || !(room >= 1) { // adapters are turned off
				s.Loads, s.Resident, s.ResidentMax, s.LoadSeconds = llmlb.LoadsNothing, nil, 0, 0
				continue
			}
			names := make([]string, 0, len(o.Names))
			for _, l := range o.Names {
				names = append(names, strings.Split(label(m, l), ",")...)
			}
			s.Loads, s.LoadSeconds = o.Kind, o.Seconds
			s.Resident, s.ResidentMax = d.names(names), int(min(room, maxRoom))
		}
	case llmlb.LoadsModels:
		series := f.byName[o.Family].GetMetric()
		names := make([]string, 0, len(o.Names)*len(series))
		for _, m := range series {
			for _, l := range o.Names {
				names = append(names, label(m, l))
			}
		}
		s.Loads, s.LoadSeconds = o.Kind, o.Seconds
		s.Resident = d.names(names)
	case llmlb.LoadsNothing:
	}
}

// names keeps of a list what can be a name, in the forms that a request may use.
func (d *Dialect) names(list []string) []string {
	var kept []string
	for _, name := range list {
		name = strings.TrimSpace(name)
		if !nameable(name) || slices.Contains(kept, name) {
			continue
		}
		kept = append(kept, name)
		if short := d.untagged(name); short != "" && !slices.Contains(kept, short) {
			kept = append(kept, short)
		}
		if len(kept) >= maxResident {
			break
		}
	}
	return kept
}

// untagged returns the shorter form under which a request may ask for a model,
// or nothing when there is none.
func (d *Dialect) untagged(name string) string {
	short, tagged := strings.CutSuffix(name, d.DefaultTag)
	if d.DefaultTag == "" || !tagged {
		return ""
	}
	return short
}

// nameable reports whether it can be a model's name, and be shown.
func nameable(name string) bool {
	return name != "" && len(name) <= maxModelName && printable(name)
}
