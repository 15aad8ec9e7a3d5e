//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/soak/truth"
)

// orderHeader carries what a client wants of whichever engine answers, and the
// checksum of its body.
const orderHeader = "X-Soak-Order"

// order is what a client wants.
type order struct {
	ID     string
	Pool   string
	Pieces int
	Pad    int           // the least size of a piece, in bytes
	Gap    time.Duration // between two pieces
	Stream bool
	Sum    uint64 // of the body
}

func (o order) String() string {
	return fmt.Sprintf("%s %s %d %d %d %t %d", o.ID, o.Pool, o.Pieces, o.Pad, o.Gap, o.Stream, o.Sum)
}

func parseOrder(text string) (o order, err error) {
	if _, err = fmt.Sscan(text, &o.ID, &o.Pool, &o.Pieces, &o.Pad, &o.Gap, &o.Stream, &o.Sum); err != nil {
		err = fmt.Errorf("reading order %q: %w", text, err)
	}
	return o, err
}

// engine is a server that looks like vLLM from outside, says in every answer what
// it is, and tells on its standard output what it has generated. It runs in a
// process of its own until its standard input ends.
type engine struct {
	name  string
	born  string // tells this process from those before it under the same name
	seed  uint64
	share atomic.Uint64 // of requests that it fails, in millionths

	made, tokens, prompts atomic.Int64
	running               atomic.Int64

	mu  sync.Mutex
	out *bufio.Writer
}

// event is a line that an engine writes: a generation's begin or its end, or how long
// the engine has stood still, because others had the processors.
type event struct {
	Stood time.Duration    `json:"stood,omitempty"`
	ID    string           `json:"id"`
	Pool  string           `json:"pool,omitempty"`
	Ended bool             `json:"ended,omitempty"`
	G     truth.Generation `json:"g"`
}

// engineMain is an engine's command line. Only server.start calls it.
func engineMain(args []string) error {
	f := flag.NewFlagSet("engine", flag.ContinueOnError)
	name := f.String("engine", "", "its name")
	listen := f.String("listen", "", "where")
	seed := f.Uint64("seed", 1, "of what fails")
	share := f.Uint64("share", 0, "how many of a million requests fail")
	if err := f.Parse(args); err != nil {
		return err
	}
	return runEngine(*name, *listen, *seed, *share)
}

// runEngine is the whole life of an engine's process.
func runEngine(name, address string, seed, share uint64) error {
	e := &engine{name: name, born: strconv.FormatInt(time.Now().UnixMilli()%1e9, 36), seed: seed, out: bufio.NewWriter(os.Stdout)}
	e.share.Store(share)
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", address, err)
	}
	server := &http.Server{Handler: handler(e), ReadHeaderTimeout: time.Minute}
	go e.notice()
	go func() {
		// A number on a line is a new share; the end of all lines is the end.
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			if n, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil {
				e.share.Store(n)
			}
		}
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// handler is what the engine serves.
func handler(e *engine) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", e.chat)
	mux.HandleFunc("GET /metrics", e.metrics)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"soak","object":"model"}]}`)
	})
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	return mux
}

// tell writes a line, whole and at once, so that being killed loses none.
func (e *engine) tell(ev event) {
	line, err := json.Marshal(ev)
	if err != nil {
		panic(err) // plain data
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = e.out.Write(append(line, '\n'))
	_ = e.out.Flush()
}

// Whoever shares the machine may leave an engine without a processor for seconds. A
// gateway cannot know, and does what it does about any server that stands still.
const (
	noticeEvery = 100 * time.Millisecond
	stoodStill  = 600 * time.Millisecond
)

// notice tells when the engine has stood still.
func (e *engine) notice() {
	last := time.Now()
	for range time.Tick(noticeEvery) {
		now := time.Now() // a tick says when it was due
		if gap := now.Sub(last); gap > stoodStill {
			e.tell(event{Stood: gap, G: truth.Generation{Engine: e.name}})
		}
		last = now
	}
}

func (e *engine) chat(w http.ResponseWriter, r *http.Request) {
	o, err := parseOrder(r.Header.Get(orderHeader))
	if err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	g := &generation{e: e, w: w, r: r, o: o, control: http.NewResponseController(w)}
	g.Engine, g.Began = e.name, time.Now()
	g.Name = fmt.Sprintf("%s-%s-%d", e.name, e.born, e.made.Add(1))
	g.script = truth.NewScript(o.ID, g.Name)
	g.draw()
	e.running.Add(1)
	defer e.running.Add(-1)
	begun := event{ID: o.ID, Pool: o.Pool, G: g.Generation}
	e.tell(begun)
	defer func() {
		g.Ended, g.Pieces, g.Left = time.Now(), g.script.Pieces(), r.Context().Err() != nil || g.failed
		begun.Ended, begun.G = true, g.Generation
		e.tell(begun)
	}()
	g.serve()
}

// metrics is as much of vLLM's page as a gateway reads.
func (e *engine) metrics(w http.ResponseWriter, _ *http.Request) {
	const page = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="soak"} %d
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="soak"} 0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{model_name="soak"} %.3f
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model_name="soak"} %d
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="soak"} %d
`
	running := e.running.Load()
	fmt.Fprintf(w, page, running, min(0.7, float64(running)/200), e.prompts.Load(), e.tokens.Load())
}

// runningAt is how many requests an engine says to have, by its metrics page.
func runningAt(client *http.Client, address string) (int, error) {
	res, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return 0, fmt.Errorf("asking engine %s: %w", address, err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, fmt.Errorf("reading metrics of %s: %w", address, err)
	}
	for line := range strings.Lines(string(page)) {
		if value, ok := strings.CutPrefix(line, `vllm:num_requests_running{model_name="soak"} `); ok {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, fmt.Errorf("reading metrics of %s: the number of requests is missing", address)
}
