package health

import (
	"bytes"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// samples makes families of n lines that pick has cleaned: a name, labels in braces
// or none, a blank and a value. A line whose labels are broken costs only itself,
// as does one that names a label twice. The reference parser takes several times as
// long and as much memory, for things that such lines cannot have. What is returned
// is good until the arena is used again, but for its strings.
func (a *arena) samples(lines []byte, n int) *families {
	a.clear(n, bytes.Count(lines, []byte{'='}))
	for line := range strings.Lines(string(lines)) { // of which names and labels are parts
		line = strings.TrimSuffix(line, "\n")
		end := strings.IndexAny(line, "{ ")
		if end < 0 {
			continue
		}
		name, rest := line[:end], line[end:]
		var labels []*dto.LabelPair
		if rest[0] == '{' {
			var ok bool
			if labels, rest, ok = a.labels(rest); !ok {
				continue
			}
		}
		v, ok := number(strings.TrimLeft(rest, " "))
		if !ok {
			continue
		}
		mf := a.byName[name]
		if mf == nil {
			mf = a.family()
			a.byName[name] = mf
		}
		mf.Metric = append(mf.Metric, a.metric(labels, v))
	}
	return &families{byName: a.byName}
}

// arena is where the parts of a page's samples are, side by side. What it holds
// never moves: it is made large enough for the page.
type arena struct {
	byName   map[string]*dto.MetricFamily
	families []*dto.MetricFamily // of which so many are in byName
	metrics  []dto.Metric
	values   []dto.Untyped
	numbers  []float64
	pairs    []dto.LabelPair
	words    []string
	lists    []*dto.LabelPair
}

// clear makes room for as many metrics and labels.
func (a *arena) clear(metrics, labels int) {
	if a.byName == nil {
		a.byName = make(map[string]*dto.MetricFamily, 16)
	}
	clear(a.byName)
	a.metrics, a.values, a.numbers = roomy(a.metrics, metrics), roomy(a.values, metrics), roomy(a.numbers, metrics)
	a.pairs, a.words, a.lists = roomy(a.pairs, labels), roomy(a.words, 2*labels), roomy(a.lists, labels)
}

// roomy returns an empty slice with room for n, the old one if it has it.
func roomy[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, 0, n)
	}
	return s[:0]
}

// family returns a family without metrics.
func (a *arena) family() *dto.MetricFamily {
	n := len(a.byName)
	if n == len(a.families) {
		a.families = append(a.families, new(dto.MetricFamily))
	}
	mf := a.families[n]
	mf.Metric = mf.Metric[:0]
	return mf
}

func (a *arena) metric(labels []*dto.LabelPair, v float64) *dto.Metric {
	a.numbers = append(a.numbers, v)
	i := len(a.numbers) - 1
	a.values, a.metrics = a.values[:i+1], a.metrics[:i+1]
	a.values[i].Value = &a.numbers[i]
	a.metrics[i].Label, a.metrics[i].Untyped = labels, &a.values[i]
	return &a.metrics[i]
}

func (a *arena) pair(name, value string) *dto.LabelPair {
	a.words = append(a.words, name, value)
	i := len(a.pairs)
	a.pairs = a.pairs[:i+1]
	p := &a.pairs[i]
	p.Name, p.Value = &a.words[2*i], &a.words[2*i+1]
	return p
}

// labels takes the label set off the front of s, which begins with its brace.
func (a *arena) labels(s string) (list []*dto.LabelPair, rest string, ok bool) {
	const blank = " \t"
	first := len(a.lists)
	for s = strings.TrimLeft(s[1:], blank); ; s = strings.TrimLeft(s[1:], blank) {
		if s == "" {
			return nil, "", false
		}
		if s[0] == '}' {
			return a.lists[first:len(a.lists):len(a.lists)], s[1:], true
		}
		name, after, ok := labelName(s)
		after = strings.TrimLeft(after, blank)
		if !ok || len(after) == 0 || after[0] != '=' {
			return nil, "", false
		}
		value, after, ok := quoted(strings.TrimLeft(after[1:], blank))
		if !ok || a.has(first, name) {
			return nil, "", false
		}
		a.lists = append(a.lists, a.pair(name, value))
		switch s = strings.TrimLeft(after, blank); {
		case s == "", s[0] != ',' && s[0] != '}':
			return nil, "", false
		case s[0] == '}':
			return a.lists[first:len(a.lists):len(a.lists)], s[1:], true
		}
	}
}

// has reports whether the label set that begins at first has the label.
func (a *arena) has(first int, name string) bool {
	for _, p := range a.lists[first:] {
		if p.GetName() == name {
			return true
		}
	}
	return false
}

// labelName takes a label's name off the front of s: one of the classic kind, or
// any in quotes.
func labelName(s string) (name, rest string, ok bool) {
	if s[0] == '"' {
		name, rest, ok = quoted(s)
	} else {
		i := 0
		for i < len(s) && nameByte(s[i], i > 0) {
			i++
		}
		name, rest, ok = s[:i], s[i:], true
	}
	return name, rest, ok && name != "" && name != "__name__"
}

func nameByte(c byte, digits bool) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || digits && c >= '0' && c <= '9'
}

// quoted takes a quoted string off the front of s. Three escapes are known: of the
// backslash, the quote and the line end.
func quoted(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", "", false
	}
	s = s[1:]
	end := strings.IndexAny(s, `"\`)
	if end < 0 {
		return "", "", false
	}
	if s[end] == '"' {
		return s[:end], s[end+1:], true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
			switch s[i] {
			case '\\', '"':
				b.WriteByte(s[i])
			case 'n':
				b.WriteByte('\n')
			default:
				return "", "", false
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}
