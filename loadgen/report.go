package loadgen

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

// Report is what a run has shown. It is what --json writes.
type Report struct {
	Target  string    `json:"target"`
	Started time.Time `json:"started"`

	// Offering is how long requests were begun, Elapsed until the last byte of the
	// last answer; both in seconds.
	Offering float64 `json:"offering_seconds"`
	Elapsed  float64 `json:"elapsed_seconds"`

	// Interrupted says that the run was ended before its time.
	Interrupted bool `json:"interrupted"`

	// Scenario is what was to be sent, with its defaults and without the values of
	// headers, which may be secret.
	Scenario Scenario `json:"scenario"`

	Total     Group   `json:"total"`
	Classes   []Group `json:"classes,omitempty"`
	Tenants   []Group `json:"tenants,omitempty"`
	Endpoints []Group `json:"endpoints,omitempty"`

	// Late is how much later than planned requests were sent, in milliseconds:
	// above a few, this machine is too slow for the load.
	Late *Spread `json:"sent_late_ms,omitempty"`

	Faults   []Fault  `json:"faults,omitempty"`
	Timeline []Moment `json:"timeline"`

	points []point
	gaps   histogram
}

// Fault is one way in which requests failed, with an example of the words.
type Fault struct {
	Outcome string `json:"outcome"`
	Status  int    `json:"status,omitempty"`
	Message string `json:"message"`
	Count   int    `json:"count"`
}

// Moment is the state of the run at a time since its begin. Counts are since the
// moment before.
type Moment struct {
	At      float64 `json:"seconds"`
	Offered int     `json:"offered"`
	Done    int     `json:"done"`
	Failed  int     `json:"failed"`
	Open    int     `json:"open"`
	Tokens  float64 `json:"tokens_per_second"`
}

func (r *recorder) report(target string) *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &Report{
		Target: target, Started: r.begun.UTC().Truncate(time.Millisecond), Interrupted: r.stopped,
		Offering: rounded(r.offering.Seconds()), Elapsed: rounded(r.elapsed.Seconds()),
		Scenario: r.s.redacted(), Total: r.total.report("", r.elapsed), Late: r.late.spread(),
		points: r.points, gaps: r.total.itl,
	}
	for i, g := range r.classes {
		out.Classes = append(out.Classes, g.report(r.s.Classes[i].Name, r.elapsed))
	}
	out.Tenants = members(r.tenants, r.elapsed)
	out.Endpoints = members(r.endpoints, r.elapsed)
	for f, n := range r.faults {
		out.Faults = append(out.Faults, Fault{f.outcome, f.status, f.message, n})
	}
	slices.SortFunc(out.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Message, b.Message))
	})
	out.Timeline = r.line.report()
	return out
}

// members are the groups by name, tenant-2 before tenant-10.
func members(groups map[string]*group, elapsed time.Duration) (out []Group) {
	names := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	for _, name := range names {
		out = append(out, groups[name].report(printable(name, maxMessage), elapsed))
	}
	return out
}

func (t *timeline) report() []Moment {
	out := make([]Moment, 0, len(t.moments))
	var before moment
	for _, m := range t.moments {
		if m.at <= before.at {
			continue
		}
		out = append(out, Moment{
			At: rounded(m.at.Seconds()), Offered: m.started - before.started, Open: m.open,
			Done: m.ended - before.ended, Failed: m.failed - before.failed,
			Tokens: math.Round(float64(m.token-before.token) / (m.at - before.at).Seconds()),
		})
		before = m
	}
	return out
}

// redacted is the scenario without what may be secret in headers.
func (s *Scenario) redacted() Scenario {
	out := *s
	hide := func(line string) string {
		if name, _, err := header(line); err == nil {
			return name + ": …"
		}
		return line
	}
	out.Headers, out.Classes = slices.Clone(s.Headers), slices.Clone(s.Classes)
	for i, line := range out.Headers {
		out.Headers[i] = hide(line)
	}
	for i := range out.Classes {
		out.Classes[i].Header = hide(out.Classes[i].Header)
	}
	out.TenantHeader = hide(out.TenantHeader)
	if out.Tenants == 0 {
		out.TenantHeader = ""
	}
	return out
}

// WriteJSON writes the report, indented.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// rounded keeps three digits behind the point.
func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }
