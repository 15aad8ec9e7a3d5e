//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
)

// settings are what a run is asked to do.
type settings struct {
	For     time.Duration `json:"for_ns"`
	Warm    time.Duration `json:"warm_ns"`
	Seed    uint64        `json:"seed"`
	Rate    float64       `json:"rate"`
	Clients int           `json:"clients"`
	Burst   int           `json:"burst"`
	Race    bool          `json:"race"`
	Gateway string        `json:"-"` // a program that is built already
	Logs    string        `json:"-"` // where the folder with the logs is made
	Keep    bool          `json:"-"`
	JSON    string        `json:"-"`
	Report  string        `json:"-"`
}

const usageText = `soak lets a real gateway run at high load while everything around it goes wrong, and
checks that it did no wrong and kept nothing.

usage: go run ./bench/soak [flags]

It builds ./cmd/caddy and starts it before seven engines of its own, which fail, freeze,
die and are drained, while clients of every kind ask and the configuration is loaded
again and again; all of it on loopback. Each answer tells what it is, so that nothing
can be doubled, mixed up, cut or lost unseen. At the end the gateway must hold no more
than after the warm-up.

It prints a table, "passed" or "FAILED", and every reason; after a failure the logs of
all processes are kept. It takes what -for says, a minute on top, and the building: half
an hour as it is. It needs Linux, and a machine that does nothing else. Exit status: 0
passed, 1 failed, 2 wrong options, 130 interrupted.

examples:
  go run ./bench/soak                             the long one
  go run ./bench/soak -for 2m -report soak.md     the short one, in which all happens, too
  go run ./bench/soak -for 90s -race -rate 120    with the race detector

`

func parse(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	command.SpanVar(f, &s.For, "for", 30*time.Minute, "the `time` that the load lasts; warm-up, quiet times and building come on top")
	command.SpanVar(f, &s.Warm, "warm", 10*time.Second, "the `time` that the warm-up lasts, before what the gateway holds is measured for the first time")
	f.Uint64Var(&s.Seed, "seed", 1, "the `number` from which it is drawn which requests come, which of them fail, and what is done to servers")
	f.Float64Var(&s.Rate, "rate", 400, "the `number` of requests a second; the default keeps about two thirds of two cores busy, the clients and engines included")
	f.IntVar(&s.Clients, "clients", 2500, "the `number` of requests open at a time, at most; what comes then is not sent")
	f.IntVar(&s.Burst, "burst", 400, "the `number` of requests that come at once, now and then")
	f.BoolVar(&s.Race, "race", false, "build the gateway with the race detector, which takes several times the processor: lower -rate")
	f.StringVar(&s.Gateway, "gateway", "", "a `program` that is built already, from cmd/caddy")
	f.StringVar(&s.Logs, "logs", os.TempDir(), "the `folder` in which that with the logs of all processes is made; it is kept when a check fails")
	f.BoolVar(&s.Keep, "keep", false, "keep the logs in any case")
	f.StringVar(&s.JSON, "json", "", "a `file` for the result as JSON")
	f.StringVar(&s.Report, "report", "", "a `file` for the result as Markdown, which is printed too")
	err := command.Parse(f, args, func(w io.Writer) {
		fmt.Fprint(w, usageText)
		f.PrintDefaults()
	})
	if err != nil {
		return s, err
	}
	return s, s.check()
}

func (s settings) check() error {
	switch {
	case s.For < time.Second:
		return command.Wrong("-for %v: the load must last a second at least", s.For)
	case s.Warm < time.Second:
		return command.Wrong("-warm %v: the warm-up must last a second at least; what the gateway holds at the end is compared with what it holds then", s.Warm)
	case !(s.Rate > 0):
		return command.Wrong("-rate %v: requests must come", s.Rate)
	case s.Clients < 1:
		return command.Wrong("-clients %d: a request must be open at a time", s.Clients)
	case s.Burst < 0:
		return command.Wrong("-burst %d: there are no fewer than no requests", s.Burst)
	case s.JSON != "" && s.JSON == s.Report:
		return command.Wrong("-json and -report name the same file")
	case s.Gateway == "":
		return nil
	}
	if _, err := exec.LookPath(s.Gateway); err != nil {
		for cause := err; cause != nil; cause = errors.Unwrap(cause) {
			err = cause // the innermost says it without repeating the name
		}
		return command.Wrong("-gateway %q: %w", s.Gateway, err)
	}
	return nil
}

// files are what the result goes to.
type files struct{ json, report *command.Output }

// open makes sure that what was asked for can be written.
func (s settings) open() (to files, err error) {
	if to.json, err = command.Open("-json", s.JSON); err != nil {
		return to, err
	}
	if to.report, err = command.Open("-report", s.Report); err != nil {
		to.close()
	}
	return to, err
}

func (to files) close() {
	to.json.Close()
	to.report.Close()
}
