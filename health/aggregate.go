package health

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"

	dto "github.com/prometheus/client_model/go"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// An engine that spreads over processes exports several series per family.
// Labels decide what they are to each other:
//
//   - Workers that compute one model together each report the whole, so of
//     series that differ in a replica label the highest counts, once.
//   - All other labels (engine, dp_rank, model_name, cache_source …) tell parts
//     of the whole apart: counts add up, shares have a mean and a maximum.
//   - Series with a priority break down the one with priority="".
//
// Values that are no value (NaN, infinite, negative, out of range) are left
// out. If nothing is left, the number is Unknown. One that can only be a mistake
// is named to the operator; NaN is how engines say that they have none yet.

// replicaLabels tell apart processes that report the same thing.
var replicaLabels = []string{"tp_rank", "pp_rank", "moe_ep_rank", "pid"}

// maxModels and maxModelName bound what is kept of model names.
const (
	maxModels    = 64
	maxModelName = 256
)

// selector cuts a name as dialects write it, family or family{label=value},
// into its pieces.
func selector(name string) (family, label, value string) {
	family, rest, _ := strings.Cut(name, "{")
	label, value, _ = strings.Cut(strings.TrimSuffix(rest, "}"), "=")
	return family, label, value
}

// parts returns the value under that name for each part of the engine, without
// those above limit.
func (f *families) parts(name string, limit float64) []float64 {
	family, key, want := selector(name)
	mf := f.byName[family]
	var values []float64
	var index map[string]int
	for _, m := range mf.GetMetric() {
		v := m.GetUntyped().GetValue()
		if m.GetUntyped() == nil || math.IsNaN(v) ||
			label(m, "priority") != "" || key != "" && label(m, key) != want {
			continue
		}
		if v < 0 || v > limit {
			f.doubt = cmp.Or(f.doubt, outOfRange(family))
			continue
		}
		if len(mf.GetMetric()) == 1 {
			return []float64{v}
		}
		if index == nil {
			index = make(map[string]int)
		}
		key := partOf(m)
		if i, seen := index[key]; seen {
			values[i] = max(values[i], v)
			continue
		}
		index[key] = len(values)
		values = append(values, v)
	}
	return values
}

// partOf returns what tells the series' part of the engine from others.
func partOf(m *dto.Metric) string {
	var b strings.Builder
	for _, l := range m.GetLabel() {
		if slices.Contains(replicaLabels, l.GetName()) {
			continue
		}
		b.WriteString(l.GetName())
		b.WriteByte(0)
		b.WriteString(l.GetValue())
		b.WriteByte(0)
	}
	return b.String()
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// sum adds up the parts of the first family that has any.
func (f *families) sum(limit float64, names ...string) float64 {
	for _, name := range names {
		values := f.parts(name, limit)
		if len(values) == 0 {
			continue
		}
		total := 0.0
		for _, v := range values {
			total += v
		}
		return total
	}
	return llmlb.Unknown
}

// share returns the mean and the highest of the parts of the first family that
// has any.
func (f *families) share(names ...string) (mean, highest float64) {
	for _, name := range names {
		values := f.parts(name, 1+llmlb.ShareSlack)
		if len(values) == 0 {
			continue
		}
		for _, v := range values {
			mean += v / float64(len(values))
			highest = max(highest, v)
		}
		return min(mean, 1), min(highest, 1)
	}
	return llmlb.Unknown, llmlb.Unknown
}

// blocks returns the share of KV blocks in use, for pages that tell both
// numbers but no share.
func (f *families) blocks(used, all string) float64 {
	u, a := f.sum(llmlb.MaxTokens, used), f.sum(llmlb.MaxTokens, all)
	if u < 0 || a <= 0 || u > a {
		return llmlb.Unknown
	}
	return u / a
}

// least returns the lowest of the family's values: of several processes that
// tell when they started, the oldest is as old as the engine.
func (f *families) least(name string) float64 {
	values := f.parts(name, maxSeconds)
	if len(values) == 0 {
		return llmlb.Unknown
	}
	return slices.Min(values)
}

// capacity returns the size of the KV cache over all parts.
func (f *families) capacity(c Capacity) float64 {
	switch {
	case c.Each != "":
		each := f.parts(c.Each, llmlb.MaxTokens)
		size := f.sum(llmlb.MaxTokens, c.Family)
		// Which count goes with which size is told by no page so far.
		if size <= 0 || len(each) == 0 || slices.Min(each) != slices.Max(each) {
			return llmlb.Unknown
		}
		return tokens(size * each[0])
	case len(c.Labels) == 0:
		return f.sum(llmlb.MaxTokens, c.Family)
	}
	total := 0.0
	seen := make(map[string]bool)
	for _, m := range f.byName[c.Family].GetMetric() {
		part := partOf(m)
		if seen[part] {
			continue
		}
		seen[part] = true
		size := 1.0
		for _, name := range c.Labels {
			v, ok := number(label(m, name)) // "None" before the engine knows
			if !ok || !(v > 0) {
				v = 0
			}
			size *= v
		}
		total += size
	}
	return tokens(total)
}

// tokens returns the size of a cache, if it can be one.
func tokens(size float64) float64 {
	if size > 0 && size <= llmlb.MaxTokens {
		return size
	}
	return llmlb.Unknown
}

// asleep reports whether the page says that no part of the engine is awake.
func (f *families) asleep(d *Dialect) bool {
	told := false
	for _, m := range f.byName[d.Sleep].GetMetric() {
		if label(m, d.SleepLabel) != d.AwakeState {
			continue
		}
		if m.GetUntyped().GetValue() != 0 {
			return false
		}
		told = true
	}
	return told
}

// printable reports whether a name can be shown as it is: nothing in it moves a
// terminal's cursor or turns the direction of text.
func printable(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) })
}

// models returns the model names seen as labels, sorted.
func (f *families) models() []string {
	var names []string
	for _, mf := range f.byName {
		for _, m := range mf.GetMetric() {
			name := label(m, "model_name")
			if !nameable(name) || slices.Contains(names, name) {
				continue
			}
			if names = append(names, name); len(names) == maxModels {
				break
			}
		}
		if len(names) == maxModels {
			break
		}
	}
	slices.Sort(names)
	return names
}
