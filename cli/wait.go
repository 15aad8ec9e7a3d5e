package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const (
	// waitInterval is how often it is looked how far a drain is.
	waitInterval = 500 * time.Millisecond

	// Where lines cannot be written over, one follows that says something else no
	// sooner than tellEvery after the last, and one that says the same after
	// retellEvery.
	tellEvery   = 5 * time.Second
	retellEvery = 30 * time.Second

	// cutSlack is how long after a cut an engine may take to stop.
	cutSlack = 15 * time.Second

	// maxLine keeps a line of progress from being broken, which would spoil those
	// below it.
	maxLine = 79
)

// progress is how far one server is.
type progress struct {
	*server
	over string // how it ended, "" while it goes on
	left bool   // the limit is over, and something still runs
}

// await shows how far the servers are until all have drained. On a terminal the
// lines are written over; elsewhere one follows when something has changed.
func (d *drain) await(ctx context.Context, w io.Writer, list []*server) error {
	begun := time.Now()
	all := make([]*progress, len(list))
	for i, s := range list {
		all[i] = &progress{server: s}
	}
	var timeout <-chan time.Time
	if d.timeout > 0 {
		timeout = time.After(d.timeout)
	}
	tick := time.NewTicker(d.every)
	defer tick.Stop()
	screen := screen{w: w, terminal: d.terminal}
	var unseen time.Time // since when the admin API has not answered
	for {
		switch err := d.look(ctx, all, begun); {
		case ctx.Err() != nil:
			return interrupted(all)
		case err == nil:
			unseen = time.Time{}
		case errors.Is(err, errResumed), errors.Is(err, errMoved):
			return err
		case unseen.IsZero():
			unseen = time.Now() // a reload closes the API for a moment
		case time.Since(unseen) > patience:
			return err
		}
		screen.draw(all, time.Since(begun))
		if over, err := ended(all); over {
			return err
		}
		select {
		case <-ctx.Done():
			return interrupted(all)
		case <-timeout:
			return &ending{exitTimeout, fmt.Sprintf("not drained within %s: %s; the draining goes on", d.timeout, remaining(all))}
		case <-tick.C:
		}
	}
}

var (
	errResumed = errors.New("it takes new requests again: somebody has resumed it, or Caddy was restarted")
	errMoved   = errors.New("the pool was renamed or removed, and the order with it")
)

// look asks how far each server is that has not come to its end.
func (d *drain) look(ctx context.Context, all []*progress, begun time.Time) error {
	for _, p := range all {
		if p.over != "" {
			continue
		}
		after := time.Since(begun).Round(time.Second)
		body, err := d.send(ctx, http.MethodGet, p.path(""), nil)
		if _, gone := errors.AsType[notThere](err); gone {
			if err := d.finish(ctx, p, fmt.Sprintf("drained after %s, no longer configured", after)); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		var row llmlb.EndpointStatus
		if err := json.Unmarshal(body, &row); err != nil {
			return fmt.Errorf("reading the admin API's answer: %w", err)
		}
		switch p.row = row; {
		case !drains(&row):
			return fmt.Errorf("%s is %s: %w", printable(row.Name), printable(row.State), errResumed)
		case row.State == llmlb.Drained.String():
			if err := d.finish(ctx, p, fmt.Sprintf("drained after %s", after)); err != nil {
				return err
			}
		default:
			p.left = hopeless(row.Drain, time.Now())
		}
	}
	return nil
}

// finish notes how it ended for a server that is drained, or that its pool does not
// have any more. Where the pool has another name now, the server is another endpoint
// there, which drains or does not.
func (d *drain) finish(ctx context.Context, p *progress, over string) error {
	now, err := d.moved(ctx, p.server)
	switch {
	case err != nil:
		return err
	case now == nil:
		p.over = over
	case !drains(&now.row):
		return fmt.Errorf("%w: %s is in pool %s now, where it is %s", errMoved,
			printable(p.row.Address), printable(now.pool), printable(now.row.State))
	default:
		p.server = now
	}
	return nil
}

// hopeless reports whether the limit is over and nothing makes an end of the rest.
func hopeless(d *llmlb.DrainStatus, now time.Time) bool {
	return d != nil && d.Overdue && (!d.Cut || now.Sub(d.Until) > cutSlack)
}

// ended reports whether nothing more is to be waited for, and with what error.
func ended(all []*progress) (over bool, err error) {
	for _, p := range all {
		if p.over == "" && !p.left {
			return false, nil
		}
	}
	if slices.ContainsFunc(all, func(p *progress) bool { return p.over == "" }) {
		return true, &ending{exitLeft, "the limit is over: " + remaining(all) + "; the draining goes on"}
	}
	return true, nil
}

func interrupted(all []*progress) error {
	names := make([]string, 0, len(all))
	for _, p := range all {
		names = append(names, printable(p.row.Name))
	}
	return &ending{exitInterrupted, fmt.Sprintf("interrupted: %s; the draining goes on, 'caddy llm-resume %s' ends it",
		remaining(all), strings.Join(names, " "))}
}

// remaining says what still runs, and where.
func remaining(all []*progress) string {
	var parts []string
	for _, p := range all {
		if p.over == "" {
			parts = append(parts, printable(p.row.Name)+" has "+strings.Join(work(&p.row), ", "))
		}
	}
	if len(parts) == 0 {
		return "nothing is left"
	}
	return strings.Join(parts, "; ")
}

// work is what is open at a server.
func work(e *llmlb.EndpointStatus) (parts []string) {
	open := e.Calls
	if e.Drain != nil {
		open = e.Drain.Open
	}
	parts = append(parts, fmt.Sprintf("%d open here", open))
	if e.Running != nil {
		parts = append(parts, "engine: "+count(e.Running)+" running")
	}
	if e.Waiting != nil {
		parts = append(parts, count(e.Waiting)+" waiting")
	}
	return parts
}

// line is one server's line, and the same without what changes by itself.
func (p *progress) line(elapsed time.Duration, now time.Time) (whole, lasting string) {
	name := printable(p.row.Name) + ": "
	if p.over != "" {
		return name + p.over, name + p.over
	}
	lasting = name + "draining, " + strings.Join(work(&p.row), ", ")
	whole = lasting + "; " + elapsed.Round(time.Second).String()
	switch d := p.row.Drain; {
	case d == nil || d.Until.IsZero():
	case d.Overdue && d.Cut:
		whole, lasting = whole+", cut", lasting+", cut"
	case d.Overdue:
		whole, lasting = whole+", the limit is over", lasting+", the limit is over"
	default:
		whole += ", limit in " + max(0, d.Until.Sub(now)).Round(time.Second).String()
	}
	return whole, lasting
}

// screen is where the progress is shown.
type screen struct {
	w        io.Writer
	terminal bool

	drawn int         // lines that stand on the terminal
	told  []string    // what was said of each server last, elsewhere
	at    []time.Time // and when
}

func (s *screen) draw(all []*progress, elapsed time.Duration) {
	var b strings.Builder
	now := time.Now()
	if s.terminal && s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	if s.told == nil {
		s.told, s.at = make([]string, len(all)), make([]time.Time, len(all))
	}
	for i, p := range all {
		whole, lasting := p.line(elapsed, now)
		switch {
		case s.terminal:
			if runes := []rune(whole); len(runes) > maxLine {
				whole = string(runes[:maxLine-1]) + "…"
			}
			fmt.Fprintf(&b, "\r\x1b[2K%s\n", whole)
		case lasting != s.told[i] && (p.over != "" || now.Sub(s.at[i]) >= tellEvery), p.over == "" && now.Sub(s.at[i]) >= retellEvery:
			s.told[i], s.at[i] = lasting, now
			fmt.Fprintln(&b, whole)
		}
	}
	s.drawn = len(all)
	_, _ = io.WriteString(s.w, b.String())
}
