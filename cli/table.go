package cli

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// unknown stands for a number that nobody told: never 0, which would say idle.
const unknown = "–"

// column is one column of the table; numbers stand to the right.
type column struct {
	head   string
	number bool
}

var columns = []column{
	{"server", false},
	{"running", true},
	{"waiting", true},
	{"kv-mem", true},
	{"ttft", true},
	{"tok/s", true},
	{"state", false},
	{"reason", false},
}

// gap keeps the columns apart.
const gap = "  "

// FormatTable writes the pools as tables for people, in the order given. Each
// server has its name, as in the X-LLM-Endpoint header, and its address. With
// more than one pool each table has a line above that names its pool. Numbers
// that are not known are "–". The error is w's.
func FormatTable(w io.Writer, pools []llmlb.PoolStatus) error {
	return format(w, pools, writeLoad)
}

// format writes each pool's line and what write says of it.
func format(w io.Writer, pools []llmlb.PoolStatus, write func(*strings.Builder, *llmlb.PoolStatus)) error {
	var b strings.Builder
	for i := range pools {
		if len(pools) > 1 {
			if i > 0 {
				b.WriteByte('\n')
			}
			writePoolLine(&b, &pools[i])
		}
		if len(pools[i].Endpoints) == 0 {
			b.WriteString("no servers yet\n")
			continue
		}
		write(&b, &pools[i])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writePoolLine(b *strings.Builder, p *llmlb.PoolStatus) {
	b.WriteString("pool " + printable(p.Pool))
	if p.Strategy != "" {
		b.WriteString(" (" + printable(p.Strategy) + ")")
	}
	b.WriteByte('\n')
}

func writeLoad(b *strings.Builder, p *llmlb.PoolStatus) {
	nameWidth := 0
	for i := range p.Endpoints {
		nameWidth = max(nameWidth, utf8.RuneCountInString(printable(p.Endpoints[i].Name)))
	}
	rows := make([][]string, 0, len(p.Endpoints))
	for i := range p.Endpoints {
		rows = append(rows, cells(&p.Endpoints[i], nameWidth))
	}
	writeTable(b, columns, rows)
	if p.AllDown {
		b.WriteString("checks have taken every server out: those are used whose requests do not fail\n")
	}
	if p.AllRefused {
		b.WriteString("checks have taken every server out: requests are refused (all_down refuse)\n")
	}
	writeQueue(b, &p.Queue)
	writeRefused(b, p.Refusals)
}

// writeTable writes a line of headings and the rows, each with a cell for every
// column.
func writeTable(b *strings.Builder, columns []column, rows [][]string) {
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = c.head
	}
	rows = slices.Insert(rows, 0, head)
	widths := make([]int, len(columns))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString(gap)
			}
			line.WriteString(pad(cell, widths[i], columns[i].number))
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
}

func cells(e *llmlb.EndpointStatus, nameWidth int) []string {
	return []string{
		pad(printable(e.Name), nameWidth, false) + " " + printable(e.Address),
		count(e.Running),
		count(e.Waiting),
		percent(e.KVUsage),
		latency(e.TTFTMillis),
		count(e.TokensPerSecond),
		printable(e.State),
		reason(e),
	}
}

// reason is why the state is what it is and what happens next, and how far the
// numbers can be trusted when they cannot.
func reason(e *llmlb.EndpointStatus) string {
	var parts []string
	if e.Reason != "" {
		parts = append(parts, printable(e.Reason))
	}
	if e.Next != "" {
		parts = append(parts, printable(e.Next))
	}
	if e.Share > 0 && e.Share < 1 && (e.State == llmlb.Up.String() || e.State == llmlb.Degraded.String()) {
		parts = append(parts, fmt.Sprintf("gets %.0f%% of its share", 100*e.Share))
	}
	if e.Blind && !e.Loadless && e.ScrapeAgeMillis != nil {
		// Fresh ones that do not count have their reason.
		if age := time.Duration(*e.ScrapeAgeMillis * float64(time.Millisecond)).Round(time.Second); age > 0 || len(parts) == 0 {
			parts = append(parts, fmt.Sprintf("numbers %s old", age))
		}
	}
	if e.Blind && !e.Loadless && len(parts) == 0 {
		parts = append(parts, "no numbers")
	}
	return strings.Join(parts, "; ")
}

func count(x *float64) string {
	if x == nil {
		return unknown
	}
	return fmt.Sprintf("%.0f", *x)
}

func percent(x *float64) string {
	if x == nil {
		return unknown
	}
	return fmt.Sprintf("%.0f%%", *x*100)
}

// latency prints milliseconds below a second and tenths of a second above, so
// that 240ms and 1.2s can be told apart at a glance.
func latency(ms *float64) string {
	if ms == nil {
		return unknown
	}
	if whole := math.Round(*ms); whole < 1000 {
		return fmt.Sprintf("%.0fms", whole)
	}
	return fmt.Sprintf("%.1fs", *ms/1000)
}

func pad(s string, width int, right bool) string {
	fill := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if right {
		return fill + s
	}
	return s + fill
}

// printable keeps what a terminal would obey out of it: names and reasons may
// carry text that came from a server.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
