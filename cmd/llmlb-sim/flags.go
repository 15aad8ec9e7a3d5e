package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

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

	engine       string
	replicas, kv int
	attention    float64
	engines      []engine.Config

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
	f.DurationVar(&o.first, "first", 0, "")
	f.DurationVar(&o.dither, "dither", 0, "")
	f.Float64Var(&o.speed, "speed", 1, "")
	f.StringVar(&o.engine, "engine", "8b-h100", "")
	f.IntVar(&o.replicas, "replicas", 8, "")
	f.IntVar(&o.kv, "kv", 0, "")
	f.Float64Var(&o.attention, "attention", 1, "")
	f.StringVar(&o.strategy, "strategy", "work", "")
	f.BoolVar(&o.oracle, "oracle", false, "")
	f.IntVar(&o.gateways, "gateways", 1, "")
	f.DurationVar(&o.scrape, "scrape", time.Second, "")
	f.DurationVar(&o.lag, "lag", 0, "")
	f.DurationVar(&o.overhead, "overhead", 0, "")
	f.DurationVar(&o.maxWait, "max-wait", 0, "")
	f.DurationVar(&o.slo.TTFT, "slo-ttft", 5*time.Second, "")
	f.DurationVar(&o.slo.TPOT, "slo-tpot", 100*time.Millisecond, "")
	f.BoolVar(&o.capacity, "capacity", false, "")
	f.Uint64Var(&o.seed, "seed", 1, "")
	f.IntVar(&o.seeds, "seeds", 1, "")
	f.BoolVar(&o.json, "json", false, "")
	f.BoolVar(&o.quiet, "quiet", false, "")
	f.StringVar(&o.html, "html", "", "")
	f.StringVar(&o.cpuprofile, "cpuprofile", "", "")
	return f
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
		return nil, err
	}
	f.Visit(func(x *flag.Flag) { o.set[x.Name] = true })
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
	return o, nil
}

const (
	maxServers = 4096
	maxSeeds   = 1000
)

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
	for _, x := range []struct {
		name  string
		value float64
	}{{"speed", o.speed}, {"attention", o.attention}} {
		if !(x.value > 0) || math.IsInf(x.value, 1) {
			return fmt.Errorf("-%s %v must be a number above 0", x.name, x.value)
		}
	}
	for _, x := range []struct {
		name               string
		value, least, most int
	}{
		{"replicas", o.replicas, 1, maxServers},
		{"gateways", o.gateways, 1, maxServers},
		{"seeds", o.seeds, 1, maxSeeds},
		{"kv", o.kv, 0, 1 << 26},
	} {
		if x.value < x.least || x.value > x.most {
			return fmt.Errorf("-%s %d is not within %d to %d", x.name, x.value, x.least, x.most)
		}
	}
	for _, x := range []struct {
		name     string
		value    time.Duration
		positive bool
	}{
		{"first", o.first, o.set["first"]},
		{"scrape", o.scrape, true},
		{"slo-ttft", o.slo.TTFT, true},
		{"slo-tpot", o.slo.TPOT, true},
		{"dither", o.dither, false},
		{"lag", o.lag, false},
		{"overhead", o.overhead, false},
		{"max-wait", o.maxWait, false},
	} {
		switch {
		case x.positive && x.value <= 0:
			return fmt.Errorf("-%s %v must be above 0", x.name, x.value)
		case x.value < 0:
			return fmt.Errorf("-%s %v must not be negative", x.name, x.value)
		}
	}
	return nil
}

// seedsUsed are the seeds of the runs.
func (o *options) seedsUsed() []uint64 {
	seeds := make([]uint64, o.seeds)
	for i := range seeds {
		seeds[i] = o.seed + uint64(i)
	}
	return seeds
}
