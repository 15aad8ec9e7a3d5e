package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/report"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// looks is how often the servers' load is looked at for the plots, about.
const looks = 150

func sampleTime(t *trace.Trace) time.Duration {
	return max(t.Requests[len(t.Requests)-1].At/looks, 100*time.Millisecond)
}

// writePage writes -html.
func (r *runner) writePage(rows []report.Row, results []outcome, bounds report.Bounds) error {
	curves := make([]report.Curves, len(rows))
	for i := range rows {
		curves[i] = results[i].curves
	}
	f, err := os.Create(r.html)
	if err != nil {
		return fmt.Errorf("writing -html: %w", err)
	}
	p := report.Page{
		Command: "llmlb-sim " + strings.Join(r.args, " "), About: r.describe(r.workload), Trace: r.name,
		Rows: rows, Curves: curves, Bounds: bounds, SLO: r.slo,
	}
	if err := errors.Join(p.Write(f), f.Close()); err != nil {
		return fmt.Errorf("writing -html: %w", err)
	}
	return nil
}
