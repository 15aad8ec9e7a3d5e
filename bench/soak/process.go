//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// process is a program that ends with this one.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when it has ended
	meant atomic.Bool   // it was told to end
}

// starts are run by one thread that lives as long as the program: the system kills
// a child when the thread that started it ends.
var starts = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
}

// launch starts a program. Its output goes to out and its errors to log, which stay
// the caller's to close.
func launch(out, log io.Writer, env []string, program string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, log
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // Ctrl-C is for this program alone
	}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("preparing %q: %w", program, err)
	}
	p.stdin = stdin
	started := make(chan error)
	starts <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %q: %w", program, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended does not matter, only that it did
		close(p.ended)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal sends a signal to the process.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("sending %v to process %d: %w", sig, p.pid(), err)
	}
	return nil
}

// kill ends the process at once and waits for that.
func (p *process) kill() {
	p.meant.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// alive says whether the process has not ended.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// cpuSeconds is what the process has used of the processors until now, by /proc; 0
// when it has ended.
func cpuSeconds(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in brackets, may hold anything; user and system time are the
	// twelfth and thirteenth field behind it, in hundredths of a second.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// descriptors counts the open files of a process.
func descriptors(pid int) (int, error) {
	dir, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, fmt.Errorf("counting descriptors: %w", err)
	}
	return len(dir), nil
}

// freeAddress is a loopback address that nobody uses at the moment.
func freeAddress() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
