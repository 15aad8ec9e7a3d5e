//go:build linux

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
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

func main() {
	var s settings
	flag.DurationVar(&s.For, "for", 30*time.Minute, "how long the load lasts; warm-up, quiet times and building come on top, 40 s and what compiling takes")
	flag.DurationVar(&s.Warm, "warm", 10*time.Second, "how long the warm-up lasts, before what the gateway holds is measured for the first time")
	flag.Uint64Var(&s.Seed, "seed", 1, "which requests come, which of them fail, and what is done to servers")
	flag.Float64Var(&s.Rate, "rate", 400, "requests a second; the default keeps about two thirds of two cores busy, the clients and engines included")
	flag.IntVar(&s.Clients, "clients", 2500, "requests open at a time, at most; what comes then is not sent")
	flag.IntVar(&s.Burst, "burst", 400, "requests that come at once, now and then")
	flag.BoolVar(&s.Race, "race", false, "build the gateway with the race detector, which takes several times the processor: lower -rate")
	flag.StringVar(&s.Gateway, "gateway", "", "a gateway that is built already, from cmd/caddy")
	flag.StringVar(&s.Logs, "logs", os.TempDir(), "where the folder with the logs of all processes is made; it is kept when a check fails")
	flag.BoolVar(&s.Keep, "keep", false, "keep that folder in any case")
	flag.StringVar(&s.JSON, "json", "", "a file for the result as JSON")
	flag.StringVar(&s.Report, "report", "", "a file for the result as Markdown, which is printed too")
	name := flag.String("engine", "", "be an engine of that name instead; for the command's own use")
	listen := flag.String("listen", "", "with -engine: where")
	share := flag.Uint64("share", 0, "with -engine: how many of a million requests fail")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "soak: unknown argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if *name != "" {
		if err := runEngine(*name, *listen, s.Seed, *share); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if s.For < time.Second || s.Rate <= 0 || s.Clients < 1 || s.Burst < 0 {
		fmt.Fprintln(os.Stderr, "soak: -for must be a second at least, -rate and -clients above 0")
		os.Exit(2)
	}
	os.Exit(s.main())
}

// main runs, reports, and returns the exit status.
func (s settings) main() int {
	folder, err := os.MkdirTemp(s.Logs, "soak-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak: making a folder for the logs:", err)
		return 1
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	res, err := s.run(folder, interrupted)
	res.Failures = reasons(err)
	if err := res.write(s, folder); err != nil {
		res.Failures = append(res.Failures, err.Error())
	}
	fmt.Print(res.markdown())
	if len(res.Failures) == 0 {
		if !s.Keep {
			_ = os.RemoveAll(folder)
		}
		return 0
	}
	fmt.Fprintf(os.Stderr, "\nsoak: FAILED, for %d reasons; logs, lies and profiles are in %s\n", len(res.Failures), folder)
	for _, reason := range res.Failures {
		fmt.Fprintln(os.Stderr, "-", reason)
	}
	return 1
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
func (r *result) write(s settings, folder string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	lies, err := json.MarshalIndent(r.lies, "", "\t")
	if err != nil {
		return fmt.Errorf("writing the lies: %w", err)
	}
	for name, content := range map[string][]byte{
		s.JSON: append(text, '\n'), s.Report: []byte(r.markdown()), filepath.Join(folder, "lies.json"): append(lies, '\n'),
	} {
		if name == "" {
			continue
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	return nil
}
