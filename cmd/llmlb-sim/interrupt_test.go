//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// piped runs the command on a trace that comes through a pipe. What it returns ends
// once the command has opened it.
func piped(t *testing.T, ctx context.Context, line string) (into *os.File, result func() (code int, stdout, stderr string)) {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no pipe can be made here: %v", err)
	}
	var out, errs bytes.Buffer
	code := make(chan int)
	go func() { code <- command(ctx, strings.Fields("-trace "+pipe+" "+line), &out, &errs) }()
	into, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { into.Close() })
	return into, func() (int, string, string) { return <-code, out.String(), errs.String() }
}

func TestATraceThroughAPipe(t *testing.T) {
	into, result := piped(t, t.Context(), "-json")
	fmt.Fprintln(into, `{"timestamp":0,"input_length":1,"output_length":1}`)
	into.Close()
	if code, stdout, stderr := result(); code != 0 || !strings.Contains(stdout, `"requests": 1,`) {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// An interrupt used to be heard only when a simulated request ended: never while a
// pipe was silent, or as long as servers were scraped and nobody asked.
func TestAnInterruptEndsWhatWaits(t *testing.T) {
	page := filepath.Join(t.TempDir(), "x.html")
	ctx, interrupt := context.WithCancel(t.Context())
	_, result := piped(t, ctx, "-html "+page)
	interrupt()
	if code, stdout, stderr := result(); code != 1 || stdout != "" || stderr != "llmlb-sim: interrupted\n" {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(page); !os.IsNotExist(err) {
		t.Errorf("an empty page is left behind: %v", err)
	}
}
