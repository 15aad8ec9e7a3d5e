//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
)

// asEngine is the first argument of this program where it is one of its own engines.
const asEngine = "-engine"

func main() {
	if len(os.Args) > 1 && os.Args[1] == asEngine {
		if err := engineMain(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := command.Interruptible("soak: stopping…")
	err := soak(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	os.Exit(command.Status(err))
}

// soak runs, and reports.
func soak(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	to, err := s.open()
	if err != nil {
		return err
	}
	defer to.close()
	folder, err := os.MkdirTemp(s.Logs, "soak-")
	if err != nil {
		return command.Wrong("making a folder below -logs: %w", err)
	}
	res, err := s.run(ctx, folder)
	return s.conclude(res, err, folder, to)
}

// buildFolder is where the gateway is built, below the folder with the logs.
const buildFolder = "build"

// conclude prints and writes what came of a run, and keeps of its folder what explains
// a failure.
func (s settings) conclude(res *result, err error, folder string, to files) error {
	_ = os.RemoveAll(filepath.Join(folder, buildFolder)) // large, and built again at will
	switch {
	case errors.Is(err, command.ErrInterrupted):
		err = fmt.Errorf("%w after %.0f s, nothing judged", command.ErrInterrupted, time.Since(res.Started).Seconds())
		if s.Keep {
			return fmt.Errorf("%w; logs are in %s", err, folder)
		}
		return errors.Join(err, os.RemoveAll(folder))
	case err != nil && res.Seconds == 0: // there is nothing to put into a table
		if os.Remove(folder) == nil { // nobody has logged anything
			return err
		}
		return fmt.Errorf("%w\nlogs are in %s", err, folder)
	}
	res.Failures = reasons(err)
	if err := res.write(to, folder); err != nil {
		res.Failures = append(res.Failures, err.Error())
	}
	fmt.Print(res.markdown())
	if len(res.Failures) == 0 {
		if s.Keep {
			return nil
		}
		return os.RemoveAll(folder)
	}
	many := "s"
	if len(res.Failures) == 1 {
		many = ""
	}
	return fmt.Errorf("FAILED, for %d reason%s; logs, lies and profiles are in %s\n- %s", len(res.Failures), many, folder, strings.Join(res.Failures, "\n- "))
}

// reasons are the errors that were joined, each by itself.
func reasons(err error) (all []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, reasons(e)...)
		}
	} else if err != nil {
		all = append(all, err.Error())
	}
	return all
}

// write writes what files were asked for, and into the folder what explains a
// failure.
func (r *result) write(to files, folder string) error {
	if to.json != nil {
		err := to.json.Write(func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "\t")
			return e.Encode(r)
		})
		if err != nil {
			return err
		}
	}
	if to.report != nil {
		err := to.report.Write(func(w io.Writer) error {
			_, err := io.WriteString(w, r.markdown())
			return err
		})
		if err != nil {
			return err
		}
	}
	lies, err := json.MarshalIndent(r.lies, "", "\t")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "lies.json"), append(lies, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the lies: %w", err)
	}
	return nil
}
