package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/selection"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/report"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// looks is how often the servers' load is looked at for the plots, about.
const looks = 150

func sampleTime(t *trace.Trace) time.Duration {
	return max(t.Requests[len(t.Requests)-1].At/looks, 100*time.Millisecond)
}

// firstDrawn are whom the page draws at first, if there are too many to draw all.
var firstDrawn = []string{selection.StrategyWork, idealName, "round_robin"}

// report is what came of all runs.
func (r *runner) report(results []outcome) *report.Page {
	bounds := r.bounds(r.workload)
	rows := r.rows(results)
	report.Bound(rows, bounds)
	curves := make([]report.Curves, len(rows))
	for i := range rows {
		curves[i] = results[i].curves
	}
	return &report.Page{
		Command: "llmlb-sim " + strings.Join(r.args, " "), About: r.describe(r.workload), Trace: r.name,
		Rows: rows, Curves: curves, Bounds: bounds, SLO: r.slo, First: firstDrawn,
	}
}

// pageFile is where -html goes.
type pageFile struct {
	file    *os.File
	created bool // there was none before
	written bool
}

// openPage opens it before anything is simulated. An older report stays as it is
// until there is a new one. Without -html it is nil.
func (o *options) openPage() (*pageFile, error) {
	if o.html == "" {
		return nil, nil
	}
	f, err := os.OpenFile(o.html, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) //nolint:gosec // a report, for whom the umask lets
	created := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(o.html, os.O_WRONLY, 0) //nolint:gosec // the file that its user names
	}
	if err != nil {
		return nil, fmt.Errorf("writing -html: %w", err)
	}
	return &pageFile{file: f, created: created}, nil
}

func (p *pageFile) write(page *report.Page) error {
	p.written = true
	err := p.file.Truncate(0)
	if info, serr := p.file.Stat(); serr == nil && !info.Mode().IsRegular() {
		err = nil // what is no file has no length
	}
	if err == nil {
		err = page.Write(p.file)
	}
	if err = errors.Join(err, p.file.Close()); err != nil {
		return fmt.Errorf("writing -html: %w", err)
	}
	return nil
}

// close leaves no empty file behind.
func (p *pageFile) close() {
	if p == nil || p.written {
		return
	}
	_ = p.file.Close()
	if p.created {
		_ = os.Remove(p.file.Name()) //nolint:gosec // it was made here
	}
}

// checkFiles keeps what is written from being what is read.
func (o *options) checkFiles() error {
	type named struct{ option, path string }
	files := []named{{"trace", o.trace}, {"html", o.html}, {"cpuprofile", o.cpuprofile}}
	for i, a := range files {
		for _, b := range files[i+1:] {
			if a.path != "" && b.path != "" && sameFile(a.path, b.path) {
				return fmt.Errorf("-%s and -%s are the same file, %s", a.option, b.option, b.path)
			}
		}
	}
	return nil
}

func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && x.Mode().IsRegular() && os.SameFile(x, y)
}
