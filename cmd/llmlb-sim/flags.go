package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	bench "github.com/caddy-llmlb/caddy-llmlb/bench/command"
	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/report"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

var errHelp = errors.New("help")

// options are what the command line says.
type options struct {
	args []string // as given
	set  map[string]bool

	trace, format string
	gen           generator
	first         time.Duration
	dither        time.Duration
	speed         float64

	engine    string
	replicas  int
	kv, block int // 0 is the engine's
	attention float64
	engines   []engine.Config

	strategy    string
	strategies  []strategy
	oracle      bool
	gateways    int
	scrape, lag time.Duration
	overhead    time.Duration
	maxWait     time.Duration

	slo      report.SLO
	capacity bool
	seed     uint64
	seeds    int

	json, quiet bool
	html        string
	cpuprofile  string
}

// flags are the options with their defaults. What they do is written in help.go.
func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("llmlb-sim", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.trace, "trace", "", "")
	f.StringVar(&o.format, "format", "", "")
	o.gen.flags(f)
	spanVar(f, &o.first, "first", 0)
	spanVar(f, &o.dither, "dither", 0)
	f.Float64Var(&o.speed, "speed", 1, "")
	f.StringVar(&o.engine, "engine", "8b-h100", "")
	f.IntVar(&o.replicas, "replicas", 8, "")
	f.IntVar(&o.kv, "kv", 0, "")
	f.IntVar(&o.block, "block", 0, "")
	f.Float64Var(&o.attention, "attention", 1, "")
	f.StringVar(&o.strategy, "strategy", "work", "")
	f.BoolVar(&o.oracle, "oracle", false, "")
	f.IntVar(&o.gateways, "gateways", 1, "")
	spanVar(f, &o.scrape, "scrape", time.Second)
	spanVar(f, &o.lag, "lag", 0)
	spanVar(f, &o.overhead, "overhead", 0)
	spanVar(f, &o.maxWait, "max-wait", 0)
	spanVar(f, &o.slo.TTFT, "slo-ttft", 5*time.Second)
	spanVar(f, &o.slo.TPOT, "slo-tpot", 100*time.Millisecond)
	f.BoolVar(&o.capacity, "capacity", false, "")
	f.Uint64Var(&o.seed, "seed", 1, "")
	f.IntVar(&o.seeds, "seeds", 1, "")
	f.BoolVar(&o.json, "json", false, "")
	f.BoolVar(&o.quiet, "quiet", false, "")
	f.StringVar(&o.html, "html", "", "")
	f.StringVar(&o.cpuprofile, "cpuprofile", "", "")
	return f
}

// spanVar defines an option that is a time. What it is for is in the help's own text.
func spanVar(f *flag.FlagSet, at *time.Duration, name string, preset time.Duration) {
	bench.SpanVar(f, at, name, preset, "")
}

// parse reads the command line and checks what can be checked without reading the
// trace.
func parse(args []string) (*options, error) {
	o := &options{args: args, set: make(map[string]bool)}
	f := o.flags()
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, errHelp
		}
		return nil, errors.New(explained(f, err.Error()))
	}
	empty := ""
	f.Visit(func(x *flag.Flag) {
		o.set[x.Name] = true
		if x.Value.String() == "" {
			empty = x.Name
		}
	})
	if empty != "" {
		return nil, fmt.Errorf("-%s is given, and nothing after it: is a variable of your script empty?", empty)
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("what is %q? A trace is named with -trace %[1]s", f.Arg(0))
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	var err error
	if o.engines, err = o.pool(); err != nil {
		return nil, err
	}
	if o.strategies, err = o.chosen(); err != nil {
		return nil, err
	}
	if err := o.checkPool(); err != nil {
		return nil, err
	}
	return o, nil
}

// explained is what the flag package says of a value, but for what it says of a
// number, which is about its code.
func explained(f *flag.FlagSet, text string) string {
	head, ok := strings.CutSuffix(text, "parse error")
	if !ok {
		if head, ok = strings.CutSuffix(text, "value out of range"); !ok {
			return text
		}
	}
	name := strings.TrimSuffix(head[strings.LastIndex(head, " -")+len(" -"):], ": ")
	x := f.Lookup(name)
	if x == nil {
		return text
	}
	typed, ok := x.Value.(flag.Getter)
	if !ok {
		return text
	}
	switch typed.Get().(type) {
	case int:
		return head + fmt.Sprintf("it takes a whole number up to %d", mostOf(name))
	case uint64:
		return head + "it takes a whole number of 0 or more"
	case float64:
		return head + "it takes a number"
	}
	return head + "it takes true or false"
}

func (o *options) check() error {
	switch {
	case o.trace == "" && o.gen.name == "":
		return fmt.Errorf("nothing to replay: name a file with -trace, or make a workload up with -gen %s", strings.Join(trace.Generators(), "|"))
	case o.trace != "" && o.gen.name != "":
		return errors.New("-trace and -gen are both given: which of the two is to be replayed?")
	case o.format != "" && !slices.Contains(trace.Formats(), o.format):
		return fmt.Errorf("-format %q is unknown; have %s, or leave it out", o.format, strings.Join(trace.Formats(), ", "))
	case o.format != "" && o.trace == "":
		return errors.New("-format goes with -trace")
	}
	if err := o.gen.check(o.set); err != nil {
		return err
	}
	if err := o.checkRanges(); err != nil {
		return err
	}
	return o.checkFiles()
}

// seedsUsed are the seeds of the runs.
func (o *options) seedsUsed() []uint64 {
	seeds := make([]uint64, o.seeds)
	for i := range seeds {
		seeds[i] = o.seed + uint64(i)
	}
	return seeds
}
