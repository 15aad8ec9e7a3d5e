package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var rateColumns = []column{
	{"server", false},
	{"prefill tok/s", true},
	{"itl", true},
	{"floor", true},
	{"usual prompt", true},
	{"predicted", true},
	{"samples", true},
	{"calls", true},
	{"tok in flight", true},
	{"errors", true},
}

// FormatRates writes what FormatTable does, and under each table a second one of
// what was learned of the servers, and a line for each model. Numbers that were
// not learned yet are "–". The error is w's.
func FormatRates(w io.Writer, pools []llmlb.PoolStatus) error {
	return format(w, pools, func(b *strings.Builder, p *llmlb.PoolStatus) {
		writeLoad(b, p)
		b.WriteByte('\n')
		writeRates(b, p.Endpoints)
		for i := range p.Models {
			if i == 0 {
				b.WriteByte('\n')
			}
			writeModel(b, &p.Models[i])
		}
	})
}

func writeRates(b *strings.Builder, endpoints []llmlb.EndpointStatus) {
	zones, weights := false, false
	for i := range endpoints {
		zones = zones || endpoints[i].Zone != ""
		weights = weights || weight(&endpoints[i]) != llmlb.DefaultWeight
	}
	columns := slices.Clip(rateColumns)
	if zones {
		columns = append(columns, column{"zone", false})
	}
	if weights {
		columns = append(columns, column{"weight", true})
	}
	rows := make([][]string, 0, len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		row := []string{
			printable(e.Name),
			tokens(e.PrefillSpeed),
			fineLatency(e.ITLMillis),
			fineLatency(e.FloorMillis),
			grouped(e.PromptTokens),
			latency(&e.PredictedMillis),
			grouped(float64(e.Samples)),
			grouped(float64(e.Calls)),
			grouped(float64(e.PrefillTokens + e.OutputTokens)),
			percent(&e.ErrorRate),
		}
		if zones {
			row = append(row, orUnknown(printable(e.Zone)))
		}
		if weights {
			row = append(row, fmt.Sprintf("%g", weight(e)))
		}
		rows = append(rows, row)
	}
	writeTable(b, columns, rows)
}

// weight is 1 unless the operator has said otherwise.
func weight(e *llmlb.EndpointStatus) float64 {
	if e.Weight == 0 {
		return llmlb.DefaultWeight
	}
	return e.Weight
}

func writeModel(b *strings.Builder, m *llmlb.ModelStatus) {
	ratio := unknown
	if m.BytesPerToken != nil {
		ratio = fmt.Sprintf("%.1f", *m.BytesPerToken)
	}
	fmt.Fprintf(b, "%s: %s bytes/token, %s output tokens\n", modelName(m.Model), ratio, tokens(m.OutputTokens))
}

// maxName is how much of a model's name is printed. Clients write it.
const maxName = 64

func modelName(name string) string {
	if name == "" {
		return "no model named"
	}
	runes := []rune(printable(name))
	if len(runes) > maxName {
		return "model " + string(runes[:maxName]) + "…"
	}
	return "model " + string(runes)
}
