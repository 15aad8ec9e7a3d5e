package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/bench/stats"
)

// result is everything that a run found.
type result struct {
	Go         string            `json:"go"`
	Platform   string            `json:"platform"`
	GOMAXPROCS int               `json:"gomaxprocs"`
	Modules    map[string]string `json:"modules"`
	Rounds     int               `json:"rounds"`
	Seed       uint64            `json:"seed"`
	Cells      []cellResult      `json:"cells"`
}

// cellResult is what one cell found, by side.
type cellResult struct {
	cell

	Sides []sideResult `json:"sides"`
}

// sideResult has medians of all rounds, for one pick. The ratios are to our side,
// above 1 where this one takes longer.
type sideResult struct {
	Name   string  `json:"name"`
	CPU    float64 `json:"cpu_us"`
	Wall   float64 `json:"wall_us"`
	Allocs float64 `json:"allocs"`
	Bytes  float64 `json:"bytes"`

	CPURatio  ratio `json:"cpu_ratio"`
	WallRatio ratio `json:"wall_ratio"`
}

func newResult(rounds int, seed uint64) *result {
	r := &result{
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, GOMAXPROCS: runtime.GOMAXPROCS(0),
		Modules: map[string]string{}, Rounds: rounds, Seed: seed,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if slices.Contains(peers, m.Path) {
				r.Modules[m.Path] = m.Version
			}
		}
	}
	return r
}

var peers = []string{
	"github.com/vllm-project/aibrix", "sigs.k8s.io/gateway-api-inference-extension", "github.com/bytedance/sonic",
}

func (r *result) add(b *bench, samples [][]sample) {
	c := cellResult{cell: b.cell}
	cpu, wall := func(s sample) float64 { return s.cpu }, func(s sample) float64 { return s.wall }
	for i, s := range samples {
		c.Sides = append(c.Sides, sideResult{
			Name: b.sides[i].name(),
			CPU:  stats.Median(column(s, cpu)) * 1e6, Wall: stats.Median(column(s, wall)) * 1e6,
			Allocs:    stats.Median(column(s, func(s sample) float64 { return s.allocs })),
			Bytes:     stats.Median(column(s, func(s sample) float64 { return s.bytes })),
			CPURatio:  ratioOf(column(s, cpu), column(samples[0], cpu), r.Seed),
			WallRatio: ratioOf(column(s, wall), column(samples[0], wall), r.Seed),
		})
	}
	r.Cells = append(r.Cells, c)
}

// side returns the result of the side with the name.
func (c *cellResult) side(name string) sideResult {
	i := slices.IndexFunc(c.Sides, func(s sideResult) bool { return s.Name == name })
	if i < 0 {
		return sideResult{}
	}
	return c.Sides[i]
}

// table writes the result as Markdown: one table for each dialect and number of
// goroutines.
func (r *result) table(w io.Writer) {
	var kinds []cell
	for _, c := range r.Cells {
		kind := cell{API: c.API, Goroutines: c.Goroutines}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range kinds {
		r.tableOf(w, kind)
	}
}

var columns = []string{nameChoice, nameAIBrix, nameGIE, nameAIBrixRequest, nameGIERequest}

func (r *result) tableOf(w io.Writer, kind cell) {
	clock := "CPU time"
	if kind.Goroutines > 1 {
		clock = "time by the clock"
	}
	fmt.Fprintf(w, "### %s, %d goroutine(s), %s\n\nµs per pick (allocations); for the peers also how many times ours that is, [95 %% interval].\n\n", kind.API, kind.Goroutines, clock)
	fmt.Fprintf(w, "| endpoints | prompt | %s | %s |\n|--:|--:|%s\n", nameOurs, strings.Join(columns, " | "), strings.Repeat("--:|", len(columns)+1))
	for _, c := range r.Cells {
		if c.API != kind.API || c.Goroutines != kind.Goroutines {
			continue
		}
		o := c.side(nameOurs)
		fmt.Fprintf(w, "| %d | %d KB | %s ", c.Endpoints, c.PromptKB, o.cost(kind))
		for _, name := range columns {
			s := c.side(name)
			fmt.Fprintf(w, "| %s ", s.cost(kind))
			if name != nameChoice {
				of := s.CPURatio
				if kind.Goroutines > 1 {
					of = s.WallRatio
				}
				fmt.Fprintf(w, "× %s [%s, %s] ", short(of.Median), short(of.Low), short(of.High))
			}
		}
		fmt.Fprintln(w, "|")
	}
	fmt.Fprintln(w)
}

func (s sideResult) cost(kind cell) string {
	us := s.CPU
	if kind.Goroutines > 1 {
		us = s.Wall
	}
	return fmt.Sprintf("%s (%.0f)", short(us), s.Allocs)
}

// short writes a number with two digits or three.
func short(v float64) string {
	switch {
	case v >= 10:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
