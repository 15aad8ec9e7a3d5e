package health

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// wellFormed is a line as the format has it. Of some others Prometheus' parser makes
// something by chance: it takes m{a""=""} for m{a=""}.
var wellFormed = func() *regexp.Regexp {
	const text = `"(?:[^"\\]|\\["\\n])*"`
	const pair = `(?:[a-zA-Z_][a-zA-Z0-9_]*|` + text + `)[ \t]*=[ \t]*` + text
	return regexp.MustCompile(`^[^{ ]+(?:\{[ \t]*(?:` + pair + `(?:[ \t]*,[ \t]*` + pair + `)*[ \t]*,?[ \t]*)?\})? *[^ ]+\n?$`)
}()

// sound leaves out the broken lines that we make nothing of, whatever Prometheus
// makes of them.
func sound(lines []byte) (kept []byte) {
	for line := range bytes.Lines(lines) {
		if wellFormed.Match(line) || len(new(arena).samples(line, 1).byName) > 0 {
			kept = append(kept, line...)
		}
	}
	return kept
}

// reference reads lines one by one with Prometheus' own parser: what is broken
// costs only itself.
func reference(lines []byte) map[string]*dto.MetricFamily {
	all := make(map[string]*dto.MetricFamily)
	for line := range bytes.Lines(lines) {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		f, err := parser.TextToMetricFamilies(bytes.NewReader(line))
		if err != nil {
			continue
		}
		for name, mf := range f {
			if all[name] == nil {
				all[name] = new(dto.MetricFamily)
			}
			all[name].Metric = append(all[name].Metric, mf.GetMetric()...)
		}
	}
	return all
}

// sameFamilies reports the first thing in which the two differ.
func sameFamilies(a, b map[string]*dto.MetricFamily) (differ string) {
	if len(a) != len(b) {
		return "how many there are"
	}
	for name, mf := range a {
		other := b[name]
		if other == nil || len(mf.GetMetric()) != len(other.GetMetric()) {
			return name
		}
		for i, m := range mf.GetMetric() {
			o := other.GetMetric()[i]
			v, w := m.GetUntyped().GetValue(), o.GetUntyped().GetValue()
			if v != w && !(math.IsNaN(v) && math.IsNaN(w)) {
				return name + " by value"
			}
			if !slices.EqualFunc(m.GetLabel(), o.GetLabel(), func(p, q *dto.LabelPair) bool {
				return p.GetName() == q.GetName() && p.GetValue() == q.GetValue()
			}) {
				return name + " by label"
			}
		}
	}
	return ""
}

// Whatever a page says, it is read as Prometheus would read it, or not at all where
// it is broken.
func FuzzSamples(f *testing.F) {
	for _, seed := range []string{
		"m 1", "m{} 1", "m{a=\"b\"} 1", "m{a=\"b\",} 2", "m{ a = \"b\" , c=\"d\" } 3", "m{a=\"b\"}4", "m{,} 1", "m{a=\"b\",,c=\"d\"} 1",
		"m{a=\"\\\"}\"} 3 # {t=\"x\"} 1\r\n", "m{a=\"b\",a=\"c\"} 3", "m{a=\"\\x\"} 1", "m{a=\"\\n\\\"} 1", "m{__name__=\"x\"} 1", "m{__name__x=\"x\"} 1",
		"m{\"a b\"=\"c\"} 1", "m{\"\"=\"c\"} 1", "m{\"x\"} 1", "m{1a=\"b\"} 1", "m{a} 1", "m{a=b} 1", "m{a=\"b\" c=\"d\"} 1", "m{a=\"b\"", "m",
		"m NaN", "m +Inf", "m{le=\"1\"} -Inf 1700000000000", "m 1e309", "m 0x10", "m 1_0", "m\t1", "m{a=\"\u00e4\"} 1", "m{\u00e4=\"a\"} 1", "m{quantile=\"0.5\"} 1\nm{le=\"x\"} 2\n",
		"m{a:b=\"c\"} 1", "m{\"a\\\"b\"=\"c\"} 1", "m{a=\"b\"}  1", "m{a=\"b\x00\"} 1", "m{a\"\"=\"\"} 2",
	} {
		f.Add([]byte(seed))
	}
	wanted := map[string]struct{}{"m": {}, "vllm:x": {}}
	f.Fuzz(func(t *testing.T, page []byte) {
		var a arena // which has read another page before
		lines, n := pick(nil, page, wanted)
		a.samples([]byte("m{other=\"page\"} 7\nm{x=\"y\"} 8\nother 9\n"), 3)
		if got, want := a.samples(lines, n).byName, reference(sound(lines)); sameFamilies(got, want) != "" {
			t.Errorf("%q is read otherwise: %s\n%v\nwant\n%v", lines, sameFamilies(got, want), got, want)
		}
	})
}
