package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
)

// The page brings all it needs with it.
var (
	//go:embed page/report.html
	pageHTML string
	//go:embed page/report.css
	pageCSS string
	//go:embed page/report.js
	pageJS string
)

var page = template.Must(template.New("report").Parse(pageHTML))

// Page is the report with plots: one file that works offline, on a phone, and on
// light and dark ground.
type Page struct {
	// Command is the command line, About a sentence on what was simulated, and
	// Trace the workload's name.
	Command, About, Trace string

	Rows   []Row
	Curves []Curves // of each row, in the same order
	Bounds Bounds
	SLO    SLO

	// First names whose curves are drawn at first where there are more than a few,
	// as far as they are there. If none is, it is the best few.
	First []string
}

// plots is what the page's script draws.
type plots struct {
	Curves []Curves   `json:"curves"`
	Shown  []int      `json:"shown"` // which of them at first
	SLO    [2]float64 `json:"slo"`   // of the first token and of the others, in milliseconds
}

// shownFirst is how many lines are drawn until somebody chooses: more would cover
// each other.
const shownFirst = 6

// bar is one strategy's capacity.
type bar struct {
	Name, Text string
	Width      float64 // per cent of the longest
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	rows := Best(p.Rows)
	heads, cells := table(rows)
	byName := make(map[string]Curves, len(p.Rows))
	for i := range p.Rows {
		byName[p.Rows[i].Strategy] = p.Curves[i]
	}
	// In the table's order, so that what is drawn first is what is of interest.
	drawn := plots{SLO: [2]float64{millis(p.SLO.TTFT), millis(p.SLO.TPOT)}}
	var seeds []string
	for i := range rows {
		drawn.Curves = append(drawn.Curves, byName[rows[i].Strategy])
	}
	drawn.Shown = p.shown(rows)
	if len(rows) > 0 {
		for _, s := range rows[0].Seeds {
			seeds = append(seeds, strconv.FormatUint(s, 10))
		}
	}
	return page.Execute(w, map[string]any{
		"Trace": p.Trace, "About": p.About, "Command": p.Command, "Heads": heads, "Cells": cells,
		"Bounds": slices.Concat(unsteady(rows), beyond(rows, p.Bounds), p.Bounds.lines()), "Capacity": bars(rows), "Reasons": reasons(rows), "SLO": p.SLO.String(), "Seeds": strings.Join(seeds, ", "), "Plots": &drawn,
		"CSS": template.CSS(pageCSS), "JS": template.JS(pageJS), //nolint:gosec // our own files
	})
}

// shown are the places of the rows whose curves are drawn at first.
func (p *Page) shown(rows []Row) []int {
	shown := []int{}
	if len(rows) > shownFirst {
		for _, name := range p.First {
			if i := slices.IndexFunc(rows, func(r Row) bool { return r.Strategy == name }); i >= 0 {
				shown = append(shown, i)
			}
		}
	}
	if len(shown) > 0 {
		return shown
	}
	for i := range rows {
		if len(shown) < shownFirst && (!rows[i].Oracle || len(rows) <= shownFirst) {
			shown = append(shown, i)
		}
	}
	return shown
}

// String is how people read it.
func (s SLO) String() string {
	return fmt.Sprintf("first token within %v, each further one within %v on average", s.TTFT, s.TPOT)
}

// bars are the capacities; none if none was asked for.
func bars(rows []Row) []bar {
	longest := 0.0
	for i := range rows {
		if c := rows[i].Capacity; c != nil && c.Value != nil {
			longest = max(longest, *c.Value)
		}
	}
	var list []bar
	for i := range rows {
		c := rows[i].Capacity
		switch {
		case c == nil:
		case c.Value == nil:
			list = append(list, bar{rows[i].Strategy, "no limit found", 100})
		default:
			text := number(c.Value, "×")
			if c.Ratio != nil {
				text += " (" + number(c.Ratio, "") + ")"
			}
			list = append(list, bar{rows[i].Strategy, text, 100 * *c.Value / max(longest, 1e-9)})
		}
	}
	return list
}
