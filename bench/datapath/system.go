package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
)

// The systems by the names that they have in the tables.
const (
	ours    = "llm_proxy"
	plain   = "plain Caddy"
	haproxy = "HAProxy"
	nginx   = "nginx"
	direct  = "no gateway"
)

// kind is one way to put something in front of the engines.
type kind struct {
	name    string
	program string // its path
	libs    string // a folder of libraries that it needs, or nothing
	// configure writes what it needs into the folder and returns its arguments.
	configure func(s setting) ([]string, error)
}

// setting is what a configuration is made of.
type setting struct {
	folder    string
	listen    string // address
	admin     string // address of Caddy's admin API
	endpoints []string
	most      int // connections from clients
}

// system is one that runs.
type system struct {
	kind
	*process
	address string
	admin   string
}

// start runs one in front of the endpoints and waits until it serves.
func (k kind) start(ctx context.Context, folder string, endpoints []string, most int) (*system, error) {
	if k.name == direct {
		return &system{kind: k, address: endpoints[0]}, nil
	}
	own, err := os.MkdirTemp(folder, "system")
	if err != nil {
		return nil, err
	}
	s := setting{folder: own, listen: free(), admin: free(), endpoints: endpoints, most: most}
	args, err := k.configure(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(k.program, args...) //nolint:gosec // a program that was built or found here
	// Nothing of a run stays in the home folder.
	cmd.Env = append(os.Environ(), "HOME="+own, "XDG_DATA_HOME="+own, "XDG_CONFIG_HOME="+own)
	if k.libs != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+k.libs)
	}
	p, err := launch(own, "system", cmd)
	if err != nil {
		return nil, err
	}
	sys := &system{k, p, s.listen, s.admin}
	if err := p.answers(ctx, s.listen); err != nil {
		p.stop()
		return nil, fmt.Errorf("starting %s: %w", k.name, err)
	}
	return sys, nil
}

func (s *system) stop() {
	if s.process != nil {
		s.process.stop()
	}
}

// answers waits until a request gets its answer there.
func (p *process) answers(ctx context.Context, address string) error {
	return p.ready(ctx, 30*time.Second, func() error {
		c := newClient(address, newPrompts(400, 1, true, 0), nil)
		c.check = &counting{tokens: 1, events: new(atomic.Int64)}
		defer c.close()
		_, err := c.ask()
		return err
	})
}

// failed says which system went wrong, and what that said last.
func (w *workload) failed(s *system, err error) error {
	if s.process == nil {
		return fmt.Errorf("%s, %s: %w", w.name, s.name, err)
	}
	return fmt.Errorf("%s, %s: %w\n%s", w.name, s.name, err, s.said())
}

// used is its processor time; that of none is none.
func (s *system) used() (time.Duration, error) {
	if s.process == nil {
		return 0, nil
	}
	return s.process.used()
}

// free returns a loopback address that nobody listens on.
func free() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // no port is free
	}
	defer l.Close()
	return l.Addr().String()
}

//go:embed package.sh
var packageScript string

// errSkipped says that a system cannot be had here.
var errSkipped = errors.New("SKIPPED")

// fromPackage finds a program of one of Debian's packages.
func fromPackage(ctx context.Context, name string) (program, libs string, err error) {
	cmd := command.Whole(exec.CommandContext(ctx, "bash", "-s", "--", name)) // ended so, it takes away what it has unpacked
	cmd.Stdin = strings.NewReader(packageScript)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return "", "", fmt.Errorf("%w: %s", errSkipped, lines[len(lines)-1])
	}
	if err != nil {
		return "", "", fmt.Errorf("finding %s: %w: %s", name, err, said.String())
	}
	if _, err := fmt.Sscan(string(out), &program, &libs); err != nil {
		return "", "", fmt.Errorf("finding %s: %q", name, out)
	}
	if libs == "-" {
		libs = ""
	}
	return program, libs, nil
}

// write puts a configuration into the folder and returns its path.
func (s setting) write(name, text string) (string, error) {
	path := filepath.Join(s.folder, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}
