package loadgen

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// unknown stands for a number that nobody told: never 0.
const unknown = "–"

// maxRows is how many tenants or endpoints the table shows; the JSON has all.
const maxRows = 20

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", r.Target, r.load())
	fmt.Fprintf(&b, "offered %s requests in %s, the last ended after %s%s\n\n",
		grouped(float64(r.Total.Offered)), seconds(r.Offering), seconds(r.Elapsed), ended(r.Interrupted))
	writeTable(&b, outcomeRows(&r.Total))
	b.WriteByte('\n')
	writeTable(&b, [][]string{
		{"", "p50", "p90", "p95", "p99", "max"},
		spreadRow("time to first token", r.Total.TTFT),
		spreadRow("between tokens", r.Total.ITL),
		spreadRow("end to end", r.Total.E2E),
	})
	fmt.Fprintf(&b, "\ngoodput %s of the offered (%s); %s/s good, %s/s done\n", percent(r.Total.Goodput), r.slo(),
		short(r.Total.GoodRate), short(r.Total.RequestRate))
	fmt.Fprintf(&b, "tokens  in %s (%s/s, %s cached), out %s (%s/s)\n", grouped(float64(r.Total.Input)), grouped(r.Total.InputRate),
		cached(&r.Total), grouped(float64(r.Total.Output)), grouped(r.Total.OutputRate))
	if r.Late != nil && r.Late.P99 >= 20 {
		fmt.Fprintf(&b, "\nnote: requests were sent up to %s late (p99 %s): this machine is too slow for the load\n", ms(r.Late.Max), ms(r.Late.P99))
	}
	if len(r.Classes) > 1 {
		writeGroups(&b, "class", r.Classes)
	}
	writeGroups(&b, "tenant", r.Tenants)
	writeGroups(&b, "endpoint", r.Endpoints)
	writeFaults(&b, r.Faults)
	_, err := io.WriteString(w, b.String())
	return err
}

// load says in words what was sent.
func (r *Report) load() string {
	s := &r.Scenario
	var load string
	if s.open() {
		load = fmt.Sprintf("open loop, %s/s", s.Rate)
	} else {
		load = fmt.Sprintf("closed loop, %s clients", grouped(float64(s.Clients)))
		if s.Think > 0 {
			load += ", thinking " + time.Duration(s.Think).String()
		}
	}
	if s.Ramp > 0 {
		load += ", ramp " + time.Duration(s.Ramp).String()
	}
	return load + ", seed " + strconv.FormatUint(s.Seed, 10)
}

// slo says what is good, when that is the same for all classes.
func (r *Report) slo() string {
	first := r.Scenario.Classes[0]
	for _, c := range r.Scenario.Classes {
		if c.SLOTTFT != first.SLOTTFT || c.SLOTPOT != first.SLOTPOT {
			return "each class has its own SLO"
		}
	}
	return fmt.Sprintf("ttft ≤ %s, tpot ≤ %s", time.Duration(first.SLOTTFT), time.Duration(first.SLOTPOT))
}

func ended(early bool) string {
	if early {
		return " (ended early)"
	}
	return ""
}

// outcomeRows leaves out the columns in which there is nothing to see.
func outcomeRows(g *Group) [][]string {
	head, row := []string{"outcome"}, []string{"requests"}
	for _, o := range outcomes {
		if n := g.Outcomes[o]; n > 0 || o == OK {
			head, row = append(head, o), append(row, grouped(float64(n)))
		}
	}
	return [][]string{head, row}
}

func spreadRow(name string, s *Spread) []string {
	if s == nil {
		return []string{name, unknown, unknown, unknown, unknown, unknown}
	}
	return []string{name, ms(s.P50), ms(s.P90), ms(s.P95), ms(s.P99), ms(s.Max)}
}

func writeGroups(b *strings.Builder, kind string, groups []Group) {
	if len(groups) == 0 {
		return
	}
	rows := [][]string{{kind, "offered", "ok", "failed", "goodput", "ttft p50", "p99", "itl p50", "p99", "e2e p50", "p99", "out tok/s"}}
	for i := range groups[:min(len(groups), maxRows)] {
		g := &groups[i]
		rows = append(rows, []string{
			g.Name, grouped(float64(g.Offered)), grouped(float64(g.Outcomes[OK])), grouped(float64(g.Failed())), percent(g.Goodput),
			g.TTFT.P50Text(), g.TTFT.P99Text(), g.ITL.P50Text(), g.ITL.P99Text(), g.E2E.P50Text(), g.E2E.P99Text(), grouped(g.OutputRate),
		})
	}
	b.WriteByte('\n')
	writeTable(b, rows)
	if more := len(groups) - maxRows; more > 0 {
		fmt.Fprintf(b, "and %d more; --json has all\n", more)
	}
}

func writeFaults(b *strings.Builder, faults []Fault) {
	if len(faults) == 0 {
		return
	}
	rows := [][]string{{"failed", "outcome", "status", "said"}}
	for _, f := range faults[:min(len(faults), maxRows)] {
		status := unknown
		if f.Status != 0 {
			status = strconv.Itoa(f.Status)
		}
		rows = append(rows, []string{grouped(float64(f.Count)), f.Outcome, status, f.Message})
	}
	b.WriteByte('\n')
	writeTable(b, rows)
}

// writeTable writes rows under the first, names to the left and the rest to the
// right, but the words in the last column of what failed.
func writeTable(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			fill := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if h := rows[0][i]; i == 0 && h != "failed" || h == "said" || h == "outcome" {
				line.WriteString(cell + fill)
			} else {
				line.WriteString(fill + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
}

// P50Text is the median as text, – for none.
func (s *Spread) P50Text() string {
	if s == nil {
		return unknown
	}
	return ms(s.P50)
}

// P99Text is the 99th percentile as text, – for none.
func (s *Spread) P99Text() string {
	if s == nil {
		return unknown
	}
	return ms(s.P99)
}

// ms prints milliseconds: tenths of a few, whole ones below a second, then
// seconds.
func ms(x float64) string {
	switch {
	case x < 9.95:
		return strconv.FormatFloat(x, 'f', 1, 64) + "ms"
	case math.Round(x) < 1000:
		return strconv.FormatFloat(x, 'f', 0, 64) + "ms"
	}
	return seconds(x / 1000)
}

func seconds(x float64) string {
	digits := 1
	if x < 9.995 {
		digits = 2
	}
	return strconv.FormatFloat(x, 'f', digits, 64) + "s"
}

// short prints a rate: tenths below ten.
func short(x float64) string {
	if x < 9.95 {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return grouped(x)
}

func percent(x *float64) string {
	if x == nil {
		return unknown
	}
	// Rounded down, so that 100% is all.
	return strconv.FormatFloat(math.Floor(*x*1000+1e-9)/10, 'f', 1, 64) + "%"
}

func cached(g *Group) string {
	if g.Input == 0 {
		return unknown
	}
	return percent(new(float64(g.Cached) / float64(g.Input)))
}

// grouped prints a whole number with commas between the thousands.
func grouped(x float64) string {
	digits := strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// printable keeps what a terminal would obey out of what a server said, and
// bounds it.
func printable(s string, limit int) string {
	runes := []rune(strings.ToValidUTF8(s[:min(len(s), 4*limit)], "?"))
	if len(runes) > limit {
		runes = append(runes[:limit], '…')
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, string(runes))
}
