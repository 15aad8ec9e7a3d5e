//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
	"github.com/caddy-llmlb/caddy-llmlb/bench/soak/truth"
)

const (
	// quiet is how long nothing is asked before the first measurement, longer than
	// connections to engines are kept (4 s).
	quiet = 5 * time.Second

	// patient is how long the gateway has at the end to give back what it holds.
	patient = 40 * time.Second

	// calmWithin is how long it may take after the last answer until nothing is
	// open by the gateway's own account.
	calmWithin = 15 * time.Second
)

// rules are those of the configuration: two retries in the main pool, and none but
// after a refusal in the other, where two may follow too.
var rules = truth.Rules{
	Attempts: map[string]int{poolMain: 3, poolOnce: 1},
	Tries:    3,
	Once:     map[string]bool{poolOnce: true},
	Slack:    2 * time.Second,
}

// run is one whole soak.
type run struct {
	settings
	folder  string
	book    *book
	config  *config
	chaos   *chaos
	crowd   *crowd
	gateway *gateway
	servers []*server
	res     *result
}

// run runs it all. The result is there even where it fails. What an interrupt broke off
// on its way is no failure.
func (s settings) run(ctx context.Context, folder string) (res *result, err error) {
	r := &run{settings: s, folder: folder, book: newBook(rules), res: &result{Started: time.Now(), Settings: s}}
	defer func() {
		r.close()
		if ctx.Err() != nil && !r.res.judged {
			err = command.ErrInterrupted
		}
	}()
	if err := r.start(ctx); err != nil {
		return r.res, err
	}
	defer r.count() // what was found before a failure is told too
	r.say("warming up for %v; logs are in %s", s.Warm, folder)
	if _, err := r.load(ctx, "warm-up", s.Warm, s.Seed+1000); err != nil {
		return r.res, err
	}
	if err := r.calm(ctx); err != nil {
		return r.res, fmt.Errorf("after the warm-up: %w", err)
	}
	if err := r.rest(ctx); err != nil {
		return r.res, err
	}
	if r.res.Base, err = r.gateway.level(); err != nil {
		return r.res, err
	}
	r.profile("after-warm-up")

	before := cpuSeconds(r.gateway.pid())
	began := time.Now()
	series, err := r.load(ctx, "load", s.For, s.Seed)
	r.res.Seconds = time.Since(began).Seconds()
	if err != nil {
		return r.res, err
	}
	r.res.GatewayCores = (cpuSeconds(r.gateway.pid()) - before) / r.res.Seconds
	r.res.RSS = truth.Thirds(series)
	r.res.RSSMax = maximum(series)
	return r.res, r.finish(ctx)
}

// start builds and starts everything.
func (r *run) start(ctx context.Context) (err error) {
	program := r.Gateway
	if program == "" {
		r.say("building the gateway")
		if program, err = build(ctx, r.folder, r.Race); err != nil {
			return err
		}
	}
	site, err := freeAddress()
	if err != nil {
		return err
	}
	admin, err := freeAddress()
	if err != nil {
		return err
	}
	r.config = &config{site: site, admin: admin, without: map[string]bool{}, drains: map[string]bool{}}
	r.chaos = &chaos{book: r.book, config: r.config, burst: r.Burst}
	for _, kind := range []struct {
		name  string
		n     int
		share uint64
		list  *[]*server
	}{
		{"steady", steadyServers, 0, &r.chaos.steady},
		{"victim", victims, victimShare, &r.chaos.victims},
		{"guest", guests, victimShare, &r.chaos.guests},
	} {
		for i := range kind.n {
			s, err := newServer(r.folder, fmt.Sprintf("%s%d", kind.name, i+1), r.Seed, kind.share, r.book.tell)
			if err != nil {
				return err
			}
			r.servers = append(r.servers, s)
			*kind.list = append(*kind.list, s)
		}
	}
	r.config.servers = r.servers
	r.gateway, err = startGateway(ctx, r.folder, program, "http://"+site, admin, r.config.text())
	if err != nil {
		return err
	}
	r.config.gateway = r.gateway
	r.crowd = &crowd{
		book: r.book, clients: newClients(), url: "http://" + site, rate: r.Rate, most: r.Clients,
		rnd: rand.New(rand.NewPCG(r.Seed, 0)),
	}
	r.chaos.crowd = r.crowd
	return nil
}

// load has everything happen at once for a time, and returns once all is over that
// was begun. The series is the gateway's resident memory, second by second.
func (r *run) load(ctx context.Context, name string, d time.Duration, seed uint64) (series []float64, err error) {
	done := make(chan struct{})
	r.chaos.done = done
	r.chaos.begin(seed)
	r.crowd.all.Go(func() { r.crowd.run(done) })
	ended := time.After(d)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	p := &progress{run: r, phase: name, length: d, began: time.Now(), terminal: command.Terminal(os.Stderr)}
loop:
	for {
		select {
		case <-ended:
			break loop
		case <-ctx.Done():
			err = ctx.Err()
			break loop
		case <-r.gateway.ended:
			err = errors.New("the gateway has ended")
			break loop
		case <-tick.C:
			if b := residentBytes(r.gateway.pid()); b > 0 {
				series = append(series, b)
			}
			r.book.settle(false)
			p.tick()
		}
	}
	close(done)
	err = errors.Join(err, r.chaos.end())
	r.chaos.failed = nil
	if ctx.Err() != nil {
		return series, err // nobody waits for answers any more
	}
	p.over()
	all := make(chan struct{})
	go func() {
		r.crowd.all.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done():
	case <-time.After(2 * waitsFor):
		err = errors.Join(err, fmt.Errorf("%d requests have not ended %v after the load", r.crowd.open.Load(), 2*waitsFor))
	}
	return series, err
}

// calm brings the configuration back to the first one and waits until nothing is
// open any more.
func (r *run) calm(ctx context.Context) error {
	r.crowd.clients.hangUp()
	if err := r.config.change(func() {
		r.config.variant = 0
		clear(r.config.without)
		clear(r.config.drains)
	}); err != nil {
		return err
	}
	deadline := time.Now().Add(calmWithin)
	for {
		left, err := r.gateway.open()
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("open %v after the last answer: %s", calmWithin, strings.Join(left, "; "))
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits, or until an interrupt.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rest waits until connections that nobody uses are closed. A client's connection
// is idle only a moment after its answer has ended.
func (r *run) rest(ctx context.Context) error {
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	r.crowd.clients.hangUp()
	return pause(ctx, quiet)
}

// room is by how much the gateway may hold more at the end than after the warm-up.
// What is learned grows a little: the index of prefixes has a megabyte in each pool,
// metrics have a line for each outcome that there has been. Some old HTTP/2
// connections, a megabyte each, are kept for a while by timers of Caddy's servers.
func (s settings) room() truth.Room {
	room := truth.Room{Goroutines: 8, Descriptors: 6, HeapBytes: 48 << 20, Series: 300}
	if s.Race {
		room.HeapBytes *= 2
	}
	return room
}

// rssShare, and so many bytes, are by how much resident memory in the last third of the
// load may be above that of the middle one.
const rssShare = 0.1

func (s settings) rssBytes() float64 {
	if s.Race {
		return 72e6
	}
	return 24e6
}

// finish checks what the gateway and the engines have kept, and judges the rest.
func (r *run) finish(ctx context.Context) error {
	var failures []error
	if err := r.calm(ctx); err != nil {
		failures = append(failures, err)
	}
	// Time is what connections and goroutines need to end; what is left after
	// that is a leak.
	deadline := time.Now().Add(patient)
	var leaks []string
	if err := r.rest(ctx); err != nil {
		return err
	}
	for {
		level, err := r.gateway.level()
		if err != nil {
			return err
		}
		r.res.End = level
		if leaks = level.Leaks(r.res.Base, r.room()); len(leaks) == 0 || time.Now().After(deadline) {
			break
		}
		r.crowd.clients.hangUp()
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	for _, leak := range leaks {
		failures = append(failures, errors.New("leaked: "+leak))
	}
	r.profile("at-the-end")
	if truth.Grows(r.res.RSS, rssShare, r.rssBytes()) {
		failures = append(failures, fmt.Errorf("resident memory grows: %.0f MB in the median of the middle third, %.0f MB of the last", r.res.RSS[1]/1e6, r.res.RSS[2]/1e6))
	}
	for _, s := range r.servers {
		if n, err := runningAt(http.DefaultClient, s.address); err != nil {
			failures = append(failures, err)
		} else if n > 0 {
			failures = append(failures, fmt.Errorf("%s still generates for %d requests of which no client is left", s.name, n))
		}
	}
	m, err := r.gateway.metrics()
	if err != nil {
		failures = append(failures, err)
	}
	r.res.Retries, r.res.RetriesRefused = m.sums["caddy_llmlb_retries_total"], m.sums["caddy_llmlb_retries_refused_total"]
	failures = append(failures, r.exit())
	for _, s := range r.servers {
		s.close()
	}
	r.book.settle(true)
	r.count()
	failures = append(failures, r.verdict()...)
	r.res.judged = true
	return errors.Join(failures...)
}

// exit ends the gateway as an operator does.
func (r *run) exit() error {
	if !r.gateway.alive() {
		return errors.New("the gateway has ended before it was told to")
	}
	r.gateway.meant.Store(true)
	if err := r.gateway.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-r.gateway.ended:
	case <-time.After(20 * time.Second):
		r.gateway.kill()
		return errors.New("the gateway had not ended 20 s after it was told to, with nothing open")
	}
	if code := r.gateway.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the gateway ended with status %d", code)
	}
	return nil
}

// profile keeps what tells where a leak comes from.
func (r *run) profile(when string) {
	for name, path := range map[string]string{"goroutines-" + when + ".txt": "/debug/pprof/goroutine?debug=1", "heap-" + when + ".pprof": "/debug/pprof/heap"} {
		if text, err := r.gateway.ask(http.MethodGet, path, "", ""); err == nil {
			_ = os.WriteFile(filepath.Join(r.folder, name), text, 0o600)
		}
	}
}

// close ends all processes that are left.
func (r *run) close() {
	if r.gateway != nil {
		if r.gateway.alive() {
			r.gateway.kill()
		}
		_ = r.gateway.log.Close()
	}
	for _, s := range r.servers {
		if s.alive() {
			s.close()
		}
	}
}

func (r *run) say(form string, args ...any) {
	fmt.Fprintf(os.Stderr, "soak: "+form+"\n", args...)
}

func maximum(series []float64) (most float64) {
	for _, x := range series {
		most = max(most, x)
	}
	return most
}
