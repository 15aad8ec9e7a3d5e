package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// report is everything that a run has found, as JSON has it.
type report struct {
	Command  string            `json:"command"`
	Date     time.Time         `json:"date"`
	Took     float64           `json:"took_seconds"`
	Stopped  string            `json:"stopped,omitempty"` // why before its end
	Machine  string            `json:"machine"`
	Systems  map[string]string `json:"systems"` // versions, or why one was skipped
	Pairs    int               `json:"pairs"`
	Slice    float64           `json:"slice_seconds"`
	Figures  []figure          `json:"figures"`
	Asides   []aside           `json:"asides"`
	Workload map[string]string `json:"workloads"`
}

func (r *report) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// markdown writes the tables: what there is an aim for, everything, and asides.
func (r *report) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`, %s, %s; %.0f s.", r.Command, r.Date.Format(time.DateOnly), r.Machine, r.Took)
	for _, name := range []string{ours, plain, haproxy, nginx} {
		if v := r.Systems[name]; v != "" {
			fmt.Fprintf(&b, " %s: %s.", name, v)
		}
	}
	if r.Stopped != "" {
		fmt.Fprintf(&b, " Not finished (%s): workloads are missing.", r.Stopped)
	}
	aims, rest := r.Figures[:0:0], r.Figures[:0:0]
	for _, f := range r.Figures {
		if f.Aim != nil {
			aims = append(aims, f)
		} else {
			rest = append(rest, f)
		}
	}
	if len(aims) > 0 {
		fmt.Fprintf(&b, "\n\n| workload | %s against %s | values | median of pairs | 95 %% | aim | met |\n|---|---|--:|--:|--:|--:|---|\n", ours, plain)
		for _, f := range aims {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", f.Workload, f.Measure, f.values(), f.stands(f.Median), f.spread(), f.limit(), f.Met)
		}
		b.WriteString("\nAn aim is met when the interval does not rule it out; where the interval holds it, the table says `" + string(open) + "`.\n")
	}
	if len(rest) > 0 {
		b.WriteString("\n| workload | what | of | against | values | median of pairs | 95 % |\n|---|---|---|---|--:|--:|--:|\n")
		for _, f := range rest {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", f.Workload, f.Measure, f.System, f.Against, f.values(), f.stands(f.Median), f.spread())
		}
	}
	if len(r.Asides) > 0 {
		b.WriteString("\n| workload | what | of | value |\n|---|---|---|--:|\n")
		for _, a := range r.Asides {
			fmt.Fprintf(&b, "| %s | %s | %s | %s %s |\n", a.Workload, a.What, a.System, number(a.Value), a.Unit)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f *figure) values() string {
	return fmt.Sprintf("%s : %s %s", number(f.Value), number(f.Base), f.Unit)
}

// spread is the interval, or nothing where one pair was all.
func (f *figure) spread() string {
	if len(f.Pairs) < 2 {
		return "–"
	}
	return f.stands(f.Low) + " to " + f.stands(f.High)
}

// stands writes how one value stands to another: as a factor or as a difference.
func (f *figure) stands(v float64) string {
	if f.Ratio {
		return fmt.Sprintf("%.2f ×", v)
	}
	sign := "+"
	if v < 0 {
		sign, v = "−", -v
	}
	return fmt.Sprintf("%s %s %s", sign, number(v), f.Unit)
}

func (f *figure) limit() string {
	sign := "≤"
	if kindOf[f.Measure].atLeast {
		sign = "≥"
	}
	if f.Ratio {
		return fmt.Sprintf("%s %.2f", sign, *f.Aim)
	}
	return fmt.Sprintf("%s %v %s", sign, *f.Aim, f.Unit)
}

// number writes three digits that count, or all before the point.
func number(v float64) string {
	switch {
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1 || v <= -1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}
