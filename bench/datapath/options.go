package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
)

// options are the command line's.
type options struct {
	args                 []string // as given
	workloads            []workload
	systems              []string
	json, table, profile string
	pairs                int
	slice                time.Duration
	load                 float64
}

const usageText = `datapath measures what the gateway costs beside plain Caddy, HAProxy and nginx.

usage: go run ./bench/datapath [flags]

It builds ./cmd/caddy, takes HAProxy and nginx from Debian's packages (unpacked, not
installed; SKIPPED where they cannot be had), uses loopback alone, and takes some
nine minutes. Nothing else should keep the machine busy. The table goes to standard
output, or to the file of -o. Ctrl-C ends it with the table of what is finished.

`

func parse(args []string) (*options, error) {
	o := &options{args: args}
	set := flag.NewFlagSet("datapath", flag.ContinueOnError)
	names := set.String("workloads", "", "these alone, by `names` separated by commas")
	systems := set.String("systems", "llm_proxy,haproxy,nginx", "what is measured besides plain Caddy, by `names` separated by commas")
	set.StringVar(&o.json, "json", "", "write everything that was measured to this `file`, too")
	set.StringVar(&o.table, "o", "", "write the table to this `file`")
	set.StringVar(&o.profile, "profile", "", "instead of measuring, write profiles of both Caddys to this `folder`")
	set.IntVar(&o.pairs, "pairs", 15, "the `number` of pairs that a figure is the median of")
	command.SpanVar(set, &o.slice, "slice", 300*time.Millisecond, "the `time` for which each system is measured in a round")
	set.Float64Var(&o.load, "load", 0.25, "the rate at which latency is measured, as a `part` of what plain Caddy saturates at")
	err := command.Parse(set, args, func(w io.Writer) {
		fmt.Fprint(w, usageText)
		set.PrintDefaults()
		fmt.Fprintln(w, "\nworkloads:")
		for _, one := range workloads {
			fmt.Fprintf(w, "  %-15s %s\n", one.name, one.does)
		}
	})
	if err != nil {
		return nil, err
	}
	if o.workloads, err = pick(*names); err != nil {
		return nil, err
	}
	o.systems = strings.Split(*systems, ",")
	for _, name := range o.systems {
		if !slices.Contains([]string{"llm_proxy", "haproxy", "nginx"}, name) {
			return nil, command.Wrong("no system is called %q; there are llm_proxy, haproxy and nginx", name)
		}
	}
	switch {
	case o.pairs < 1:
		return nil, command.Wrong("-pairs %d: there must be a pair", o.pairs)
	case o.slice < 50*time.Millisecond:
		return nil, command.Wrong("-slice %v: a slice has 50ms at least", o.slice)
	case !(o.load > 0 && o.load <= 0.8):
		return nil, command.Wrong("-load %v: a moderate load is above 0 and at most 0.8", o.load)
	case o.json != "" && o.json == o.table:
		return nil, command.Wrong("-o and -json name the same file")
	}
	return o, nil
}

// files are what the results go to.
type files struct{ json, table *command.Output }

// open makes sure that what was asked for can be written.
func (o *options) open() (f files, err error) {
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o750); err != nil { //nolint:gosec // the folder that its user names
			return f, command.Wrong("writing -profile: %w", err)
		}
	}
	if f.json, err = command.Open("-json", o.json); err != nil {
		return f, err
	}
	if f.table, err = command.Open("-o", o.table); err != nil {
		f.close()
	}
	return f, err
}

func (f files) close() {
	f.json.Close()
	f.table.Close()
}

// publish writes the results where they are wanted.
func (f files) publish(r *report) error {
	if f.json != nil {
		if err := f.json.Write(r.json); err != nil {
			return err
		}
	}
	if f.table != nil {
		return f.table.Write(r.markdown)
	}
	return r.markdown(os.Stdout)
}
