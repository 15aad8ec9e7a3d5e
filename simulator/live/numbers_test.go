package live

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// comparison is one strategy in both worlds.
type comparison struct {
	strategy      string
	virtual, live []numbers
}

// off is how far truth is from virtual time.
func (c *comparison) off() float64 {
	return float64(meanOf(c.live))/float64(meanOf(c.virtual)) - 1
}

// numbers are what a run comes to.
type numbers struct {
	ttft time.Duration // mean
	hits float64       // share of the prompts' tokens found in caches
	late time.Duration // the most by which a request was sent after it was due
}

// virtually are the numbers of a run in virtual time.
func virtually(records []virtual.Record) (n numbers) {
	input := 0
	for i := range records {
		r := &records[i]
		n.ttft += r.TTFT()
		n.hits += float64(r.Cached)
		input += r.Input
	}
	n.ttft /= time.Duration(len(records))
	n.hits /= float64(input)
	return n
}

// really are the numbers of a run in truth, in which everybody must have been served.
func really(t *testing.T, rows *trace.Trace, list []seen) (n numbers) {
	t.Helper()
	input := 0
	for i := range list {
		if list[i].err != nil {
			t.Fatalf("request %d: %v", i, list[i].err)
		}
		n.ttft += list[i].ttft
		n.hits += float64(list[i].cached)
		n.late = max(n.late, list[i].late)
		input += rows.Requests[i].Input
	}
	n.ttft /= time.Duration(len(list))
	n.hits /= float64(input)
	return n
}

// table is what both worlds say, a line for each strategy.
func table(list []*comparison) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s%-30s%-44s%8s%16s%10s\n", "strategy", "virtual: mean TTFT (min-max)", "live: mean TTFT (by round)", "off", "hits v / l", "late")
	for _, c := range list {
		least, most := c.virtual[0].ttft, c.virtual[0].ttft
		for _, n := range c.virtual {
			least, most = min(least, n.ttft), max(most, n.ttft)
		}
		var rounds []string
		var late time.Duration
		for _, n := range c.live {
			rounds = append(rounds, ms(n.ttft))
			late = max(late, n.late)
		}
		fmt.Fprintf(&b, "%-14s%-30s%-44s%+7.1f%%%16s%10s\n", c.strategy,
			fmt.Sprintf("%s ms (%s-%s)", ms(meanOf(c.virtual)), ms(least), ms(most)),
			fmt.Sprintf("%s ms (%s)", ms(meanOf(c.live)), strings.Join(rounds, ", ")), 100*c.off(),
			fmt.Sprintf("%.3f / %.3f", hitsOf(c.virtual), hitsOf(c.live)), ms(late)+" ms")
	}
	return b.String()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }

// meanOf is the runs' mean time to first token.
func meanOf(runs []numbers) (mean time.Duration) {
	for i := range runs {
		mean += runs[i].ttft
	}
	return mean / time.Duration(len(runs))
}

func hitsOf(runs []numbers) (mean float64) {
	for i := range runs {
		mean += runs[i].hits / float64(len(runs))
	}
	return mean
}
