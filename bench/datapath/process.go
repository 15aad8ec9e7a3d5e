package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that this one started, with the children it has.
type process struct {
	cmd  *exec.Cmd
	pids []int
	log  string
	in   io.Closer // a program that ends with its input, or nil
	done chan struct{}
}

// launch starts a program. What it says goes to a file of that name in folder.
func launch(folder, name string, cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, log: filepath.Join(folder, name+".log"), done: make(chan struct{})}
	f, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = f
	}
	cmd.Stderr = f
	cmd.SysProcAttr = apart()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.pids = []int{cmd.Process.Pid}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	return p, nil
}

// adopt takes account of the children, once they are there.
func (p *process) adopt() error {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent …
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if parent, err := strconv.Atoi(string(fields[1])); err == nil && parent == p.cmd.Process.Pid {
			pid, err := strconv.Atoi(strings.Split(file, "/")[2])
			if err != nil {
				return err
			}
			p.pids = append(p.pids, pid)
		}
	}
	return nil
}

// used is the processor time of all of it.
func (p *process) used() (time.Duration, error) {
	var sum time.Duration
	for _, pid := range p.pids {
		t, err := processorTime(pid)
		if err != nil {
			return 0, fmt.Errorf("%w; %s", err, p.said())
		}
		sum += t
	}
	return sum, nil
}

// resident is the memory of all of it that is in RAM, in bytes.
func (p *process) resident() (float64, error) {
	sum := 0.0
	for _, pid := range p.pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)) //nolint:gosec // of a process that was started here
		if err != nil {
			return 0, fmt.Errorf("%w; %s", err, p.said())
		}
		fields := bytes.Fields(text)
		if len(fields) < 2 {
			return 0, fmt.Errorf("reading the memory of process %d: %q", pid, text)
		}
		pages, err := strconv.ParseFloat(string(fields[1]), 64)
		if err != nil {
			return 0, err
		}
		sum += pages * float64(os.Getpagesize())
	}
	return sum, nil
}

// said is the last that it has said, of errors if it has told any: when many
// requests go wrong at once, most lines are of what came of that.
func (p *process) said() string {
	text, err := os.ReadFile(p.log) //nolint:gosec // in a folder that was made here
	if err != nil {
		return err.Error()
	}
	text = bytes.TrimSpace(text)
	if at := bytes.LastIndex(text, []byte(`{"level":"error"`)); at >= 0 {
		text, _, _ = bytes.Cut(text[at:], []byte("\n"))
	}
	return fmt.Sprintf("it last said: %s", text[max(0, len(text)-1000):])
}

// stop ends it, kindly for some seconds.
func (p *process) stop() {
	if p.in != nil {
		_ = p.in.Close() // then it ends
	} else {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// ready waits until try succeeds, for at most so long.
func (p *process) ready(ctx context.Context, most time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return p.adopt()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w; %s", err, p.said())
		case <-p.done:
			return errors.New("it has ended; " + p.said())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
