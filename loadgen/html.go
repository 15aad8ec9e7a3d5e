package loadgen

import (
	_ "embed"
	"html/template"
	"io"
	"slices"
	"sort"
	"time"
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

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"count": func(n int) string { return grouped(float64(n)) }, "rate": short, "percent": percent,
	"seconds": seconds, "spread": spreadRow, "dur": func(d Duration) string { return time.Duration(d).String() },
}).Parse(pageHTML))

// maxDots is how many requests the page shows one by one: more would only cover
// each other, and a phone would be slow.
const maxDots = 1500

// plots is what the page's script draws.
type plots struct {
	Classes []string     `json:"classes"`
	SLO     []float64    `json:"slo"`      // of each class, in milliseconds
	Length  float64      `json:"length"`   // of the run in seconds
	Begun   float64      `json:"offering"` // until when requests were begun
	Dots    []dot        `json:"dots"`
	Curves  []curve      `json:"curves"`
	Gaps    [][2]float64 `json:"gaps"` // milliseconds and the share of gaps up to there
	Line    []Moment     `json:"line"`
}

// dot is a request: when it was to be sent in seconds, its time to first token in
// milliseconds (0: none), its class, and whether it ended well.
type dot struct {
	At    float64 `json:"x"`
	TTFT  float64 `json:"y"`
	Class int     `json:"c"`
	OK    bool    `json:"ok"`
}

// curve is the median and the 99th percentile of a class over time.
type curve struct {
	Class  int          `json:"c"`
	Points [][3]float64 `json:"p"` // seconds, p50, p99
}

// WriteHTML writes the report as a page that needs nothing else.
func (r *Report) WriteHTML(w io.Writer) error {
	rows := make([][]string, 0, 4)
	for _, one := range []struct {
		name string
		s    *Spread
	}{
		{"time to first token", r.Total.TTFT},
		{"between tokens", r.Total.ITL},
		{"mean between tokens", r.Total.TPOT},
		{"end to end", r.Total.E2E},
	} {
		rows = append(rows, spreadRow(one.name, one.s))
	}
	type table struct {
		Kind   string
		Groups []Group
		More   int
	}
	var tables []table
	for _, t := range []table{{"class", r.Classes, 0}, {"tenant", r.Tenants, 0}, {"endpoint", r.Endpoints, 0}} {
		if len(t.Groups) == 0 || t.Kind == "class" && len(t.Groups) == 1 {
			continue
		}
		if t.More = max(0, len(t.Groups)-100); t.More > 0 {
			t.Groups = t.Groups[:100]
		}
		tables = append(tables, t)
	}
	return page.Execute(w, map[string]any{
		"Report": r, "Load": r.load(), "SLO": r.slo(), "Rows": rows, "Outcomes": outcomeRows(&r.Total), "Tables": tables,
		"Cached": cached(&r.Total), "CSS": template.CSS(pageCSS), "JS": template.JS(pageJS), "Plots": r.plots(), //nolint:gosec // our own files
	})
}

func (r *Report) plots() *plots {
	p := &plots{Length: max(r.Elapsed, 0.001), Begun: r.Offering, Line: r.Timeline, Dots: []dot{}, Curves: []curve{}, Gaps: r.gaps.cumulated()}
	for _, c := range r.Scenario.Classes {
		p.Classes = append(p.Classes, c.Name)
		p.SLO = append(p.SLO, millis(time.Duration(c.SLOTTFT)))
	}
	// The recorder's sample has no order to rely on, so its beginning is fair
	// only where it holds all; every k-th by time is always.
	points := slices.Clone(r.points)
	sort.Slice(points, func(i, j int) bool { return points[i].at < points[j].at })
	for i := range min(len(points), maxDots) {
		q := points[i*len(points)/min(len(points), maxDots)]
		p.Dots = append(p.Dots, dot{rounded(q.at.Seconds()), millis(q.ttft), q.class, q.outcome == OK})
	}
	for class := range r.Scenario.Classes {
		if c := curveOf(points, class); len(c.Points) > 2 {
			p.Curves = append(p.Curves, c)
		}
	}
	return p
}

// curveOf cuts the requests of a class in pieces of equal number, as many as are
// worth a percentile.
func curveOf(points []point, class int) curve {
	var of []point
	for _, q := range points {
		if q.class == class && q.ttft > 0 {
			of = append(of, q)
		}
	}
	c := curve{Class: class, Points: [][3]float64{}}
	pieces := min(60, len(of)/20)
	for i := range pieces {
		piece := of[i*len(of)/pieces : (i+1)*len(of)/pieces]
		var h histogram
		for _, q := range piece {
			h.add(q.ttft)
		}
		s := h.spread()
		c.Points = append(c.Points, [3]float64{rounded(piece[len(piece)/2].at.Seconds()), s.P50, s.P99})
	}
	return c
}

// cumulated is the distribution, in at most 200 steps.
func (h *histogram) cumulated() [][2]float64 {
	out := [][2]float64{}
	seen, last := 0, -1.0
	for i, n := range h.buckets {
		if n == 0 {
			continue
		}
		seen += int(n)
		share := float64(seen) / float64(h.n)
		if share-last < 0.005 && seen < h.n {
			continue
		}
		last = share
		out = append(out, [2]float64{millis(min(middle(i), h.max)), rounded(share)})
	}
	return out
}
