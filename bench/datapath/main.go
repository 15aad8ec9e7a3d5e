package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if n, err := strconv.Atoi(os.Getenv(engineEnv)); err == nil {
		if err := serveEngine(n, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "datapath:", err)
		os.Exit(1)
	}
}

// options are the command line's.
type options struct {
	workloads, systems   string
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
output, or to the file of -o.

`

func parse(args []string) (options, error) {
	var o options
	set := flag.NewFlagSet("datapath", flag.ContinueOnError)
	set.Usage = func() {
		fmt.Fprint(set.Output(), usageText)
		set.PrintDefaults()
		fmt.Fprintln(set.Output(), "\nworkloads:")
		for _, w := range workloads {
			fmt.Fprintf(set.Output(), "  %-15s %s\n", w.name, w.does)
		}
	}
	set.StringVar(&o.workloads, "workloads", "", "these alone, by `names` separated by commas")
	set.StringVar(&o.systems, "systems", "llm_proxy,haproxy,nginx", "what is measured besides plain Caddy, by `names` separated by commas")
	set.StringVar(&o.json, "json", "", "write everything that was measured to this `file`, too")
	set.StringVar(&o.table, "o", "", "write the table to this `file`")
	set.StringVar(&o.profile, "profile", "", "instead of measuring, write profiles of both Caddys to this `folder`")
	set.IntVar(&o.pairs, "pairs", 15, "how many pairs a figure is the median of")
	set.DurationVar(&o.slice, "slice", 300*time.Millisecond, "how long each system is measured in a round")
	set.Float64Var(&o.load, "load", 0.25, "the rate at which latency is measured, as a part of what plain Caddy saturates at")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	switch {
	case set.NArg() > 0:
		return o, fmt.Errorf("%q is no flag; try -help", set.Arg(0))
	case o.pairs < 1 || o.slice < 50*time.Millisecond:
		return o, errors.New("there must be a pair, and slices of at least 50ms")
	case o.load <= 0 || o.load > 0.8:
		return o, fmt.Errorf("-load %v: a moderate load is above 0 and at most 0.8", o.load)
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	list, err := pick(o.workloads)
	if err != nil {
		return err
	}
	raiseLimit()
	folder, err := os.MkdirTemp("", "llmlb-datapath")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	p := &progress{to: os.Stderr}
	b := &bench{folder: folder, pairs: o.pairs, slice: o.slice, warm: o.slice / 4, load: o.load, progress: p}
	r := &report{
		Command: strings.Join(append([]string{"go run ./bench/datapath"}, args...), " "), Date: time.Now(),
		Machine: machine(), Pairs: o.pairs, Slice: o.slice.Seconds(), Systems: map[string]string{}, Workload: map[string]string{},
	}
	if b.kinds, err = systems(ctx, o, folder, r.Systems, p); err != nil {
		return err
	}
	b.caddy = b.kinds[0].program
	most := 1
	for _, w := range list {
		most = max(most, w.endpoints)
		r.Workload[w.name] = w.does
	}
	if b.engine, err = startEngine(folder, most); err != nil {
		return err
	}
	defer b.engine.stop()

	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o750); err != nil {
			return err
		}
	}
	for _, w := range list {
		if err = b.measure(ctx, &w, o.profile); err != nil {
			break
		}
	}
	p.end()
	r.Figures, r.Asides, r.Took = b.figures, b.asides, time.Since(r.Date).Seconds()
	if len(r.Figures) == 0 {
		return err
	}
	return errors.Join(err, r.publish(o)) // what was found before something went wrong
}

// publish writes the results where they are wanted.
func (r *report) publish(o options) error {
	if o.json != "" {
		if err := writeTo(o.json, r.json); err != nil {
			return err
		}
	}
	if o.table != "" {
		return writeTo(o.table, r.markdown)
	}
	return r.markdown(os.Stdout)
}

// systems finds and builds what is measured, plain Caddy first, and takes note of
// the versions.
func systems(ctx context.Context, o options, folder string, versions map[string]string, p *progress) ([]kind, error) {
	wanted := strings.Split(o.systems, ",")
	for _, name := range wanted {
		if !slices.Contains([]string{"llm_proxy", "haproxy", "nginx", ""}, name) {
			return nil, fmt.Errorf("no system is called %q; there are llm_proxy, haproxy and nginx", name)
		}
	}
	p.say("building Caddy")
	main := "./cmd/caddy"
	if o.profile != "" {
		main = "./bench/datapath/caddy"
	}
	caddy := filepath.Join(folder, "caddy")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", caddy, main).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s, from the root of the checkout: %w: %s", main, err, out)
	}
	kinds := []kind{{name: plain, program: caddy, configure: caddyfile(plainDirective)}}
	versions[plain] = version(ctx, kinds[0], "version")
	if slices.Contains(wanted, "llm_proxy") {
		kinds = append(kinds, kind{name: ours, program: caddy, configure: caddyfile(oursDirective)})
	}
	for _, k := range []kind{
		{name: haproxy, program: "haproxy", configure: haproxyConfig(runtime.NumCPU())},
		{name: nginx, program: "nginx", configure: nginxConfig},
	} {
		if !slices.Contains(wanted, k.program) || o.profile != "" {
			continue
		}
		p.say("finding %s", k.name)
		var err error
		k.program, k.libs, err = fromPackage(ctx, k.program)
		if errors.Is(err, errSkipped) {
			versions[k.name] = err.Error()
			p.note("%s: %v", k.name, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		versions[k.name] = version(ctx, k, "-v")
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// version is the first number in what a program says of itself.
func version(ctx context.Context, k kind, flag string) string {
	cmd := exec.CommandContext(ctx, k.program, flag) //nolint:gosec // a program that was built or found here
	if k.libs != "" {
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+k.libs)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return err.Error()
	}
	for word := range strings.FieldsSeq(string(out)) {
		if i := strings.IndexAny(word, "0123456789"); i >= 0 {
			return word[i:] // "v2.11.9 h1:…", "HAProxy version 2.6.12-1 …", "nginx version: nginx/1.22.1"
		}
	}
	return strings.TrimSpace(string(out))
}

// machine says where the run was made.
func machine() string {
	name := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, after, ok := bytes.Cut(text, []byte("model name\t: ")); ok {
			line, _, _ := bytes.Cut(after, []byte("\n"))
			name = string(line)
		}
	}
	busy := ""
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ := strings.Cut(string(text), " ")
		busy = ", load " + load + " when it began"
	}
	return fmt.Sprintf("%d cores, %s, %s%s", runtime.NumCPU(), name, runtime.Version(), busy)
}

// raiseLimit lets this process and those that it starts open as many files as they
// may. Go raises its own and hands the old one down.
func raiseLimit() {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err == nil {
		l.Cur = l.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) // who needs more says so
	}
}

func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close() // the error before it tells more
		return err
	}
	return f.Close()
}
