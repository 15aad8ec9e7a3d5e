//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// server is an engine as the harness knows it, over all of its processes.
type server struct {
	name, address string
	seed          uint64
	share         uint64 // of requests that it fails, in millionths
	tell          func(event)
	log           *os.File

	busy sync.Mutex // held by what is done to it, so that one thing is at a time
	*process
	read sync.WaitGroup // of the lines of all processes
}

// newServer starts an engine.
func newServer(folder, name string, seed, share uint64, tell func(event)) (*server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(folder, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("creating the log of %s: %w", name, err)
	}
	s := &server{name: name, address: address, seed: seed, share: share, tell: tell, log: log}
	return s, s.start()
}

// start starts the engine's process and waits until it listens.
func (s *server) start() error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	lines, out, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("preparing %s: %w", s.name, err)
	}
	defer out.Close()
	s.process, err = launch(out, s.log, nil, program, asEngine, s.name, "-listen", s.address,
		"-seed", strconv.FormatUint(s.seed, 10), "-share", strconv.FormatUint(s.share, 10))
	if err != nil {
		_ = lines.Close()
		return err
	}
	s.read.Go(func() {
		defer lines.Close()
		s.listen(lines)
	})
	deadline := time.Now().Add(10 * time.Second)
	for {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			return conn.Close()
		}
		if !s.alive() || time.Now().After(deadline) {
			return fmt.Errorf("waiting for %s: %w", s.name, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// listen takes what the engine tells until its process has ended.
func (s *server) listen(from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var e event
		if json.Unmarshal(line, &e) == nil {
			s.tell(e)
		}
	}
}

// fail has the engine fail a share of its requests, in millionths.
func (s *server) fail(share uint64) {
	_, _ = fmt.Fprintln(s.stdin, share)
}

// close ends the engine and waits until all that it told was taken.
func (s *server) close() {
	_ = s.signal(syscall.SIGCONT)
	s.kill()
	s.read.Wait()
	_ = s.log.Close()
}
