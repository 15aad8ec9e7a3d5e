package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
)

// An interrupt used to end in "context canceled", lines of a log, and no table.
func TestAnInterruptLeavesTheTableOfWhatIsFinished(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	broken := errors.New("streams-2000, nginx: context canceled\nof the engine, it last said:")

	r := &report{}
	if err := r.conclude(ctx, broken, files{}); err.Error() != "interrupted" || command.Status(err) != 130 {
		t.Errorf("with nothing finished: %v, status %d", err, command.Status(err))
	}

	name := filepath.Join(t.TempDir(), "table.md")
	to, err := (&options{table: name}).open()
	if err != nil {
		t.Fatal(err)
	}
	w := &workload{name: "chat"}
	r.Figures = []figure{compare(w, cpuRatio, ours, plain, []float64{2e-6}, []float64{1e-6})}
	if err := r.conclude(ctx, broken, to); err.Error() != "interrupted; the table has the workloads that were finished" || command.Status(err) != 130 {
		t.Errorf("with something finished: %v, status %d", err, command.Status(err))
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Not finished (interrupted): workloads are missing.", "| chat | CPU per request | llm_proxy |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// What went wrong by itself is told as it is.
func TestAFailureIsToldWhole(t *testing.T) {
	broken := errors.New("chat, nginx: reading an answer: EOF\nit last said: no")
	if err := (&report{}).conclude(t.Context(), broken, files{}); err.Error() != broken.Error() {
		t.Errorf("%v", err)
	}
}

func TestFilesAreOpenedFirst(t *testing.T) {
	folder := t.TempDir()
	fresh := filepath.Join(folder, "all.json")
	for _, o := range []options{
		{json: filepath.Join(folder, "nope", "x")},
		{json: fresh, table: filepath.Join(folder, "nope", "x")},
		{profile: "/dev/null/x"},
	} {
		if _, err := o.open(); command.Status(err) != 2 {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("an empty file is left behind: %v", err)
	}
}

// A slice is over at once when nobody wants it any more.
func TestAnInterruptEndsASlice(t *testing.T) {
	address := serving(t)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	p, want := newPrompts(kib, 20, false, 0), body(20, false)
	c := crowd{make: func() *client { return newClient(address, p, want) }}
	defer c.close()
	none := func() (time.Duration, error) { return 0, nil }
	if _, err := c.saturate(ctx, 2, time.Hour, time.Hour, none); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
