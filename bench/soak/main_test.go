//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
)

func TestCommandLine(t *testing.T) {
	for _, c := range []struct{ args, wrong string }{
		{"", ""},
		{"-for 2m -rate 100 -json a -report b -gateway /bin/sh", ""},
		{"-for 5", "a time has a unit, as in 500ms"},
		{"-for 10ms", "a second at least"},
		{"-warm 0s", "-warm 0s: the warm-up must last a second at least"},
		{"-warm 0", "-warm 0s: the warm-up must last a second at least"},
		{"-rate NaN", "requests must come"},
		{"-clients 0", "must be open"},
		{"-json x -report x", "the same file"},
		{"-gateway /nope", `-gateway "/nope": no such file or directory`},
		{"-gateway /etc/passwd", `-gateway "/etc/passwd": permission denied`},
		{"now", "Options begin with -"},
		{"-listen x", "there is no option -listen"}, // the engines' own
	} {
		_, err := parse(strings.Fields(c.args))
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %v, want %q", c.args, err, c.wrong)
		}
		if status := command.Status(err); err != nil && status != 2 {
			t.Errorf("%q: exit status %d, want 2", c.args, status)
		}
	}
}

// conclusion is what the user is told of a run, in a folder with a gateway that was
// built and with logs if there are any.
func conclusion(t *testing.T, s settings, res *result, err error, logs bool) (folder string, told error) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "soak-1")
	if err := os.MkdirAll(filepath.Join(folder, buildFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{filepath.Join(buildFolder, "caddy"): true, "gateway.log": logs} {
		if !there {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	res.Started = time.Now()
	return folder, s.conclude(res, err, folder, files{})
}

func there(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// An interrupt used to end in a table of zeros that said FAILED.
func TestAnInterruptJudgesNothing(t *testing.T) {
	for _, keep := range []bool{false, true} {
		folder, err := conclusion(t, settings{Keep: keep}, &result{Seconds: 20}, command.ErrInterrupted, true)
		want := "interrupted after 0 s, nothing judged"
		if keep {
			want += "; logs are in " + folder
		}
		if err.Error() != want || command.Status(err) != 130 {
			t.Errorf("it says %q, with status %d; want %q, 130", err, command.Status(err), want)
		}
		if there(folder) != keep || there(filepath.Join(folder, buildFolder)) {
			t.Errorf("with -keep=%t the folder is there: %t, what was built: %t", keep, there(folder), there(filepath.Join(folder, buildFolder)))
		}
	}
}

// What an interrupt breaks off on its way, here the build, is no failure.
func TestAnInterruptOfARun(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := (settings{}).run(ctx, t.TempDir()); !errors.Is(err, command.ErrInterrupted) {
		t.Errorf("%v", err)
	}
}

// Where nothing was measured there is no table, but the reason alone.
func TestARunThatDidNotBegin(t *testing.T) {
	broken := errors.New("building the gateway: exit status 1")
	if folder, err := conclusion(t, settings{}, &result{}, broken, false); err.Error() != broken.Error() || there(folder) {
		t.Errorf("it says %q; the folder is there: %t", err, there(folder))
	}
	if folder, err := conclusion(t, settings{}, &result{}, broken, true); err.Error() != broken.Error()+"\nlogs are in "+folder || !there(folder) {
		t.Errorf("with logs it says %q; the folder is there: %t", err, there(folder))
	}
}

func TestAFailureKeepsTheLogsAndNotTheProgram(t *testing.T) {
	for n, reasons := range map[int]string{1: "1 reason;", 2: "2 reasons;"} {
		var broken []error
		for i := range n {
			broken = append(broken, fmt.Errorf("leaked: %d", i))
		}
		folder, err := conclusion(t, settings{}, &result{Seconds: 20}, errors.Join(broken...), true)
		if want := "FAILED, for " + reasons + " logs, lies and profiles are in " + folder + "\n- leaked: 0"; !strings.HasPrefix(err.Error(), want) || command.Status(err) != 1 {
			t.Errorf("it says %q, with status %d; want %q, 1", err, command.Status(err), want)
		}
		if there(filepath.Join(folder, buildFolder)) || !there(filepath.Join(folder, "gateway.log")) || !there(filepath.Join(folder, "lies.json")) {
			t.Error("what was built is kept, or what explains the failure is not")
		}
	}
	if folder, err := conclusion(t, settings{}, &result{Seconds: 20}, nil, true); err != nil || there(folder) {
		t.Errorf("a run that passed: %v; the folder is there: %t", err, there(folder))
	}
}

// Who reads the table must see what would have been too much.
func TestTheTableHasTheBounds(t *testing.T) {
	r := &result{Ended: map[string]int{"whole": 9}, Held: 3}
	r.Base.HeapBytes, r.End.HeapBytes = 16.8e6, 42.6e6
	for race, lines := range map[bool][]string{
		false: {"| 16.8 → 42.6 MB (at most + 48 MiB) |", "(the last third at most 10 % and 24 MB above", "| 0 → 0 (at most + 8) |", "| 3 (at most 2 %) |", "| whole 9 (whole: at least 60 %) |"},
		true:  {"| 16.8 → 42.6 MB (at most + 96 MiB) |", "(the last third at most 10 % and 72 MB above"},
	} {
		r.Settings.Race = race
		for _, line := range lines {
			if !strings.Contains(r.markdown(), line) {
				t.Errorf("no %q in\n%s", line, r.markdown())
			}
		}
	}
}

// A line longer than the terminal is wide cannot be written over.
func TestProgressLine(t *testing.T) {
	p := &progress{run: &run{book: newBook(rules), crowd: &crowd{}}, phase: "load", length: time.Minute, terminal: true}
	p.crowd.sent.Store(3301)
	p.crowd.open.Store(119)
	p.book.words["whole"], p.book.words["cut"] = 2000, 20
	m := metrics{sums: map[string]float64{"process_resident_memory_bytes": 184e6}}
	if got, want := p.line(5*time.Second, m), "load 5s/60s sent 3301 open 119 judged 2020 failed checks 0; 184 MB"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.terminal = false
	if got := p.line(5*time.Second, m); !regexp.MustCompile(`judged 2020: whole 2000 cut 20 left 0 .* failed checks 0; 184 MB 0 goroutines`).MatchString(got) {
		t.Errorf("where nobody watches: %q", got)
	}
	p.terminal, p.phase, p.length = true, "warm-up", 100*time.Hour
	p.crowd.sent.Store(1e12)
	if got := p.line(time.Hour, m); len(got) > 79 {
		t.Errorf("%d characters: %q", len(got), got)
	}
}
