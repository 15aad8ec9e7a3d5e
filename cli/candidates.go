package cli

import (
	"fmt"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// candidateColumn is a column of the candidates' table and what stands in it.
type candidateColumn struct {
	column
	cell func(*llmlb.CandidateStatus) string
}

func writeCandidates(b *strings.Builder, k *llmlb.PickStatus) {
	all := candidateColumns(k)
	if len(k.Scorers) > 0 { // many columns
		var alike []string
		all, alike = telling(all, k)
		writeWeights(b, k, alike)
	}
	columns := make([]column, 1, 1+len(all)) // the first has the mark
	for _, c := range all {
		columns = append(columns, c.column)
	}
	rows := make([][]string, 0, len(k.Candidates))
	for i := range k.Candidates {
		row := make([]string, 1, 1+len(all))
		if i == 0 {
			row[0] = chosen
		}
		for _, c := range all {
			row = append(row, c.cell(&k.Candidates[i]))
		}
		rows = append(rows, row)
	}
	writeTable(b, columns, rows)
	if more := k.Of - len(k.Candidates); more > 0 {
		fmt.Fprintf(b, "%s  … and %s more\n", pad("", len([]rune(chosen)), false), grouped(float64(more)))
	}
}

// candidateColumns are those that have something to say about this choice.
func candidateColumns(k *llmlb.PickStatus) []candidateColumn {
	number := func(head string, cell func(*llmlb.CandidateStatus) string) candidateColumn {
		return candidateColumn{column{head, true}, cell}
	}
	text := func(head string, cell func(*llmlb.CandidateStatus) string) candidateColumn {
		return candidateColumn{column{head, false}, cell}
	}
	list := []candidateColumn{
		text("server", func(c *llmlb.CandidateStatus) string { return printable(c.Endpoint) }),
		number("matched", func(c *llmlb.CandidateStatus) string { return grouped(float64(c.Matched)) }),
		number("uncached", func(c *llmlb.CandidateStatus) string { return grouped(float64(c.Uncached)) }),
		number("waiting", func(c *llmlb.CandidateStatus) string { return requests(c.Waiting) }),
		number("running", func(c *llmlb.CandidateStatus) string { return requests(c.Running) }),
		number("ahead", func(c *llmlb.CandidateStatus) string { return grouped(c.PrefillTokens) }),
		number("kv-mem", func(c *llmlb.CandidateStatus) string { return percent(c.KVUsage) }),
		number("prefill/s", func(c *llmlb.CandidateStatus) string { return tokens(c.Speed) }),
	}
	var cost, score, loads, notes, bars bool
	for i := range k.Candidates {
		c := &k.Candidates[i]
		cost, score = cost || c.Cost != nil, score || c.Score != nil
		loads = loads || c.LoadDelay > 0
		notes, bars = notes || note(c) != "", bars || c.Barred != ""
	}
	if loads {
		list = append(list, number("load", func(c *llmlb.CandidateStatus) string { return latency(&c.LoadDelay) }))
	}
	list = append(list, number("floor", func(c *llmlb.CandidateStatus) string { return latency(c.Floor) }))
	if cost {
		list = append(list, number("wait", func(c *llmlb.CandidateStatus) string { return latency(c.Wait) }))
	}
	list = append(list, number("predicted", func(c *llmlb.CandidateStatus) string { return latency(c.Predicted) }))
	switch {
	case score:
		list = append(list, number("score", func(c *llmlb.CandidateStatus) string { return part(c.Score) }))
		for _, s := range k.Scorers {
			list = append(list, number(printable(s.Name), func(c *llmlb.CandidateStatus) string {
				if x, told := c.Parts[s.Name]; told {
					return part(&x)
				}
				return unknown
			}))
		}
	case cost:
		list = append(list, number("cost", func(c *llmlb.CandidateStatus) string { return latency(c.Cost) }))
	default: // the strategy goes by what was seen last
		list = append(list, number("ttft", func(c *llmlb.CandidateStatus) string { return latency(c.RecentTTFT) }))
	}
	if notes {
		list = append(list, text("note", note))
	}
	if bars {
		list = append(list, text("why not", whyNot))
	}
	return list
}

// writeWeights says what each scorer weighs, and the columns that are left out.
func writeWeights(b *strings.Builder, k *llmlb.PickStatus, alike []string) {
	weights := make([]string, 0, len(k.Scorers))
	for _, s := range k.Scorers {
		weights = append(weights, fmt.Sprintf("%s×%g", printable(s.Name), s.Weight))
	}
	fmt.Fprintf(b, "score: the mean of %s\n", strings.Join(weights, ", "))
	if len(alike) > 0 {
		fmt.Fprintf(b, "the same for all: %s\n", strings.Join(alike, ", "))
	}
}

// telling returns the columns that tell the candidates apart, and in words what
// stands in the others. Where one could not be taken much was not reckoned, which
// is no difference. One candidate alone is shown whole.
func telling(all []candidateColumn, k *llmlb.PickStatus) (kept []candidateColumn, alike []string) {
	if len(k.Candidates) < 2 {
		return all, nil
	}
	for _, c := range all {
		value := c.cell(&k.Candidates[0])
		same := c.number
		for i := range k.Candidates {
			cell := c.cell(&k.Candidates[i])
			same = same && (cell == value || cell == unknown && k.Candidates[i].Predicted == nil)
		}
		if same {
			alike = append(alike, c.head+" "+value)
		} else {
			kept = append(kept, c)
		}
	}
	return kept, alike
}

func part(x *float64) string {
	if x == nil {
		return unknown
	}
	return fmt.Sprintf("%.2f", *x)
}

// note is what else bears on the choice.
func note(c *llmlb.CandidateStatus) string {
	var words []string
	if c.Warm {
		words = append(words, "warm")
	}
	if c.Home {
		words = append(words, "home")
	}
	if c.Blind {
		words = append(words, "no numbers")
	}
	return strings.Join(words, ", ")
}

// whyNot is what stood against the candidate. One that was compared with the
// others all the same could be taken, because nothing better was left.
func whyNot(c *llmlb.CandidateStatus) string {
	if c.Barred != "" && c.Predicted != nil {
		return printable(c.Barred) + " (waived)"
	}
	return printable(c.Barred)
}
