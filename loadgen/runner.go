package loadgen

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// runner carries a scenario out.
type runner struct {
	s         *Scenario
	plan      *planner
	url       string
	api       string // package answer's name of it
	transport http.RoundTripper
	key       string // an API key, "" for none
	record    *recorder

	begun  time.Time
	taken  atomic.Int64  // requests that clients began
	headed []http.Header // of each class
}

// newRunner wants a complete scenario.
func newRunner(s *Scenario, url, key string, transport http.RoundTripper) *runner {
	r := &runner{
		s: s, plan: newPlanner(s), url: url, api: apiOf(s.API), transport: transport, key: key,
		begun: time.Now(),
	}
	r.record = newRecorder(s, r.begun)
	for _, c := range s.Classes {
		h := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "User-Agent": {"caddy-llm-load"}}
		if key != "" {
			h.Set("Authorization", "Bearer "+key)
		}
		for _, line := range append(slices.Clip(s.Headers), c.Header) {
			if name, value, err := header(line); err == nil {
				h.Set(name, value)
			}
		}
		r.headed = append(r.headed, h)
	}
	return r
}

// dress gives a request its headers.
func (r *runner) dress(h http.Header, class int, tenant string) {
	maps.Copy(h, r.headed[class])
	if tenant != "" {
		if name, value, err := header(strings.ReplaceAll(r.s.TenantHeader, "{tenant}", tenant)); err == nil {
			h.Set(name, value)
		}
	}
}

// do sends everything and waits for all of it to end. When stop is done nothing
// more is sent and what is open is given up.
func (r *runner) do(stop context.Context) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer context.AfterFunc(stop, func() { cancel(errStopped) })()
	sampled := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() { r.record.watch(sampled) })
	if r.s.open() {
		r.arrive(ctx)
	} else {
		r.loop(ctx)
	}
	close(sampled)
	sampling.Wait()
	r.record.finish(stop.Err() != nil)
}

// arrive is the open loop: each request goes out at its time, whatever became of
// those before.
func (r *runner) arrive(ctx context.Context) {
	var open sync.WaitGroup
	defer open.Wait()
	n := 0
	for at := range arrivals(r.s.Rate, time.Duration(r.s.Ramp), time.Duration(r.s.Duration), r.plan.source(arrivalStream)) {
		if n == r.s.Requests || !sleep(ctx, time.Until(r.begun.Add(at))) {
			break
		}
		j := r.plan.arrival(n)
		n++
		x := r.exchange(&j, r.begun.Add(at))
		if r.record.open.Load() > int64(r.s.MaxOpen) { // this one is among them
			x.fail(Unsent, "too many open requests, see --max-open")
			r.record.end(&x.sample)
			continue
		}
		open.Go(func() {
			x.do(ctx, r.s.encode(append(r.plan.begin(&j), message{"user", j.own()}), j.output))
			r.record.end(&x.sample)
		})
	}
	if n < r.s.Requests { // the time in which nobody arrived is offered load, too
		sleep(ctx, time.Until(r.begun.Add(time.Duration(r.s.Duration))))
		r.record.offer(time.Since(r.begun))
	}
}

// loop is the closed loop: each client waits for its answer and thinks before it
// sends again.
func (r *runner) loop(ctx context.Context) {
	classes := r.plan.classes(r.s.Clients)
	var clients sync.WaitGroup
	for i, class := range classes {
		clients.Go(func() {
			// With a ramp the clients come one after the other.
			if !sleep(ctx, time.Duration(r.s.Ramp)*time.Duration(i)/time.Duration(len(classes))) {
				return
			}
			c := client{runner: r, class: class, tenant: i % max(1, r.s.Tenants), chance: r.plan.source(clientStream + uint64(i))}
			for c.converse(ctx) {
			}
		})
	}
	clients.Wait()
	if r.taken.Load() <= int64(r.s.Requests) {
		r.record.offer(min(time.Since(r.begun), time.Duration(r.s.Duration)))
	}
}

// exchange begins a job that was to be sent at the given time.
func (r *runner) exchange(j *job, intended time.Time) *exchange {
	x := &exchange{run: r, intended: intended}
	x.sample = sample{class: j.class, tenant: j.tenant, at: intended.Sub(r.begun), input: j.input}
	if j.prefix >= 0 {
		x.sample.input += r.s.Classes[j.class].PrefixTokens
	}
	r.record.begin()
	return x
}

// sleep reports whether the time has passed with ctx not done.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
