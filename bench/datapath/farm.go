package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// engineEnv makes this program the fake engine, on so many addresses.
const engineEnv = "LLMLB_BENCH_ENGINE"

// engine is the process of the fake engine.
type engine struct {
	*process
	addresses []string
}

func startEngine(folder string, addresses int) (*engine, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), engineEnv+"="+strconv.Itoa(addresses))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe: it would be closed by whoever waits for the process.
	r, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd.Stdout = out
	p, err := launch(folder, "engine", cmd)
	_ = out.Close() // the process has its own
	if err != nil {
		return nil, err
	}
	p.in = in
	e := &engine{process: p}
	lines := bufio.NewScanner(r)
	for len(e.addresses) < addresses && lines.Scan() {
		e.addresses = append(e.addresses, lines.Text())
	}
	if len(e.addresses) < addresses {
		p.stop()
		return nil, fmt.Errorf("starting the engine: %s", p.said())
	}
	return e, nil
}
