package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // something could not be read, simulated or written, or it was interrupted
	exitUsage  = 2 // the options make no sense
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends it, whatever it does
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command is all of it.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, errHelp):
		_, err := io.WriteString(stdout, help())
		return code(err)
	case err != nil:
		fmt.Fprintf(stderr, "llmlb-sim: %v\nSee llmlb-sim -help.\n", err)
		return exitUsage
	}
	if err := simulate(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "llmlb-sim: %v\n", err)
		return code(err)
	}
	return exitDone
}

// usageError is a mistake in the options that shows only once the trace is read.
type usageError struct{ error }

func code(err error) int {
	if err == nil {
		return exitDone
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}
