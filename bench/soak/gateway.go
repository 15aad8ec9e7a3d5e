//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
	"github.com/caddy-llmlb/caddy-llmlb/bench/soak/truth"
)

// gateway is the process under test.
type gateway struct {
	*process
	url, admin string
	client     *http.Client // for the admin API
	log        *os.File
	watch      *watcher
}

// build compiles the gateway, with the race detector if wanted.
func build(ctx context.Context, folder string, race bool) (string, error) {
	folder = filepath.Join(folder, buildFolder)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", fmt.Errorf("making a folder to build in: %w", err)
	}
	flags := []string{"-buildvcs=false"}
	if race {
		flags = append(flags, "-race")
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	return command.Build(ctx, folder, "github.com/caddy-llmlb/caddy-llmlb/cmd/caddy", flags...)
}

// startGateway starts the program with a configuration and waits until it serves.
func startGateway(ctx context.Context, folder, program, url, admin, config string) (*gateway, error) {
	log, err := os.Create(filepath.Join(folder, "gateway.log"))
	if err != nil {
		return nil, fmt.Errorf("creating the gateway's log: %w", err)
	}
	g := &gateway{url: url, admin: "http://" + admin, log: log, client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}, watch: &watcher{to: log}}
	file := filepath.Join(folder, "Caddyfile")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	// Caddy keeps its files below the folder.
	env := []string{"HOME=" + folder, "XDG_DATA_HOME=" + folder, "XDG_CONFIG_HOME=" + folder, "GORACE=halt_on_error=0"}
	if g.process, err = launch(g.watch, g.watch, env, program, "run", "--config", file, "--adapter", "caddyfile"); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, err := g.ask(http.MethodGet, "/llmlb/pools", "", "")
		if err == nil {
			return g, nil
		}
		if ctx.Err() != nil || !g.alive() || time.Now().After(deadline) {
			return nil, fmt.Errorf("waiting for the gateway: %w", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ask sends a request to the admin API. Caddy replaces the API's server with each
// configuration and may reset connections that the one before had not accepted, so
// what got no answer is asked again; all that is asked here may be asked twice.
func (g *gateway) ask(method, path, kind, body string) (text []byte, err error) {
	for range 5 {
		var answered bool
		if text, answered, err = g.askOnce(method, path, kind, body); answered {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return text, err
}

func (g *gateway) askOnce(method, path, kind, body string) (text []byte, answered bool, err error) {
	req, err := http.NewRequest(method, g.admin+path, strings.NewReader(body))
	if err != nil {
		return nil, false, fmt.Errorf("asking the admin API: %w", err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := g.client.Do(req)
	if err != nil {
		return nil, false, fmt.Errorf("asking the admin API: %w", err)
	}
	defer res.Body.Close()
	if text, err = io.ReadAll(res.Body); err != nil {
		return nil, false, fmt.Errorf("reading what the admin API says to %s: %w", path, err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, true, fmt.Errorf("%s %s of the admin API is %d: %s", method, path, res.StatusCode, bytes.TrimSpace(text))
	}
	return text, true, nil
}

// load has the gateway run with another configuration.
func (g *gateway) load(config string) error {
	_, err := g.ask(http.MethodPost, "/load", "text/caddyfile", config)
	return err
}

// pool is what the admin API tells of a pool.
type pool struct {
	Pool      string
	Endpoints []struct {
		Name, State, Reason string
		Calls               int
		PrefillTokens       int `json:"prefill_tokens"`
		OutputTokens        int `json:"output_tokens"`
	}
	Queue struct {
		Calls, Tokens int
		BodyBytes     int `json:"body_bytes"`
	}
}

// open tells what the gateway has still open, by its own account; nothing if all
// is over.
func (g *gateway) open() (left []string, err error) {
	text, err := g.ask(http.MethodGet, "/llmlb/pools", "", "")
	if err != nil {
		return nil, err
	}
	var pools []pool
	if err := json.Unmarshal(text, &pools); err != nil {
		return nil, fmt.Errorf("reading the pools: %w", err)
	}
	for _, p := range pools {
		for _, e := range p.Endpoints {
			if e.Calls != 0 || e.PrefillTokens != 0 || e.OutputTokens != 0 {
				left = append(left, fmt.Sprintf("pool %s: %s has %d calls, %d prompt and %d output tokens", p.Pool, e.Name, e.Calls, e.PrefillTokens, e.OutputTokens))
			}
		}
		if p.Queue.Calls != 0 || p.Queue.Tokens != 0 || p.Queue.BodyBytes != 0 {
			left = append(left, fmt.Sprintf("pool %s: %d calls wait, with %d tokens and %d bytes of bodies", p.Pool, p.Queue.Calls, p.Queue.Tokens, p.Queue.BodyBytes))
		}
	}
	gauges, err := g.metrics()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{
		"caddy_llmlb_calls_in_flight", "caddy_llmlb_tokens_in_flight", "caddy_llmlb_queue_requests", "caddy_llmlb_queue_tokens",
		"caddy_llmlb_body_bytes",
	} {
		if _, ok := gauges.sums[name]; !ok {
			left = append(left, name+" is missing")
		}
		if gauges.sums[name] != 0 {
			left = append(left, fmt.Sprintf("%s is %g", name, gauges.sums[name]))
		}
	}
	return left, nil
}

// metrics is the gateway's metrics page: each name with the sum of its lines.
type metrics struct {
	sums  map[string]float64
	lines int
}

func (g *gateway) metrics() (metrics, error) {
	text, err := g.ask(http.MethodGet, "/metrics", "", "")
	if err != nil {
		return metrics{}, err
	}
	m := metrics{sums: map[string]float64{}}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
		if err != nil {
			return metrics{}, fmt.Errorf("reading line %q of the metrics: %w", line, err)
		}
		m.sums[name] += value
		m.lines++
	}
	return m, nil
}

// level measures what the gateway holds.
func (g *gateway) level() (l truth.Level, err error) {
	// What is pooled outlives one collection, and what has a finalizer another.
	var heap []byte
	for range 4 {
		if heap, err = g.ask(http.MethodGet, "/debug/pprof/heap?gc=1&debug=1", "", ""); err != nil {
			return l, err
		}
	}
	_, rest, ok := strings.Cut(string(heap), "\n# HeapAlloc = ")
	if !ok {
		return l, errors.New("reading the heap's profile: HeapAlloc is missing")
	}
	line, _, _ := strings.Cut(rest, "\n")
	if l.HeapBytes, err = strconv.ParseFloat(line, 64); err != nil {
		return l, fmt.Errorf("reading the heap's profile: %w", err)
	}
	m, err := g.metrics()
	if err != nil {
		return l, err
	}
	l.Goroutines, l.Series = m.sums["go_goroutines"], float64(m.lines)
	n, err := descriptors(g.pid())
	l.Descriptors = float64(n)
	return l, err
}

// watcher writes a log and looks for what must never stand there.
type watcher struct {
	mu    sync.Mutex
	to    io.Writer
	part  []byte
	found []string
}

// alarms are the words that must not be in the gateway's log.
var alarms = [][]byte{[]byte("panic"), []byte("runtime error"), []byte("DATA RACE"), []byte("fatal error"), []byte("concurrent map")}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.part = append(w.part, p...)
	for {
		line, rest, ok := bytes.Cut(w.part, []byte("\n"))
		if !ok {
			break
		}
		for _, alarm := range alarms {
			if bytes.Contains(line, alarm) && len(w.found) < 20 {
				w.found = append(w.found, string(line[:min(len(line), 400)]))
				break
			}
		}
		w.part = append(w.part[:0], rest...)
	}
	return w.to.Write(p)
}

// alarming are the lines found.
func (w *watcher) alarming() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.found...)
}
