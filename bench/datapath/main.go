package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
)

func main() {
	if n, err := strconv.Atoi(os.Getenv(engineEnv)); err == nil {
		if err := serveEngine(n, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := command.Interruptible("datapath: stopping…")
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "datapath:", err)
	}
	os.Exit(command.Status(err))
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	to, err := o.open()
	if err != nil {
		return err
	}
	defer to.close()
	r := &report{
		Command: strings.Join(append([]string{"go run ./bench/datapath"}, args...), " "), Date: time.Now(),
		Machine: machine(), Pairs: o.pairs, Slice: o.slice.Seconds(), Systems: map[string]string{}, Workload: map[string]string{},
	}
	return r.conclude(ctx, o.measure(ctx, r), to)
}

// conclude publishes what was found, also before something went wrong. What an
// interrupt broke off on its way says nothing of its own.
func (r *report) conclude(ctx context.Context, err error, to files) error {
	if err != nil && ctx.Err() != nil {
		err = command.ErrInterrupted
	}
	if len(r.Figures) == 0 {
		return err
	}
	if err != nil {
		r.Stopped, _, _ = strings.Cut(err.Error(), "\n")
		err = fmt.Errorf("%w; the table has the workloads that were finished", err)
	}
	return errors.Join(err, to.publish(r))
}

// measure measures it all, and fills the report.
func (o *options) measure(ctx context.Context, r *report) error {
	raiseLimit()
	folder, err := os.MkdirTemp("", "llmlb-datapath")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	p := &progress{to: os.Stderr}
	defer p.end()
	b := &bench{
		folder: folder, profiles: o.profile, pairs: o.pairs, slice: o.slice, warm: o.slice / 4, load: o.load, progress: p,
	}
	if b.kinds, err = systems(ctx, o, folder, r.Systems, p); err != nil {
		return err
	}
	b.caddy = b.kinds[0].program
	most := 1
	for _, w := range o.workloads {
		most = max(most, w.endpoints)
		r.Workload[w.name] = w.does
	}
	if b.engine, err = startEngine(folder, most); err != nil {
		return err
	}
	defer b.engine.stop()
	err = b.all(ctx, o.workloads)
	r.Figures, r.Asides, r.Took = b.figures, b.asides, time.Since(r.Date).Seconds()
	return err
}

// systems finds and builds what is measured, plain Caddy first, and takes note of
// the versions.
func systems(ctx context.Context, o *options, folder string, versions map[string]string, p *progress) ([]kind, error) {
	p.say("building Caddy")
	main := "./cmd/caddy"
	if o.profile != "" {
		main = "./bench/datapath/caddy"
	}
	caddy, err := command.Build(ctx, folder, main)
	if err != nil {
		return nil, err
	}
	kinds := []kind{{name: plain, program: caddy, configure: caddyfile(plainDirective)}}
	versions[plain] = version(ctx, kinds[0], "version")
	if slices.Contains(o.systems, "llm_proxy") {
		kinds = append(kinds, kind{name: ours, program: caddy, configure: caddyfile(oursDirective)})
	}
	for _, k := range []kind{
		{name: haproxy, program: "haproxy", configure: haproxyConfig(runtime.NumCPU())},
		{name: nginx, program: "nginx", configure: nginxConfig},
	} {
		if !slices.Contains(o.systems, k.program) || o.profile != "" {
			continue
		}
		p.say("finding %s", k.name)
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
