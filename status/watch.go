package status

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const (
	// every is how often the pools are looked at while a page is open, and the
	// most often that one is told anything.
	every = time.Second

	// maxStreams bounds how many pages may be open in the process.
	maxStreams = 64
)

// watches holds the process's one watch. Started configurations with a status page
// hold references, and requests while they last.
var watches = caddy.NewUsagePool()

// watch looks at the pools: each five seconds for the history, and each second
// while a page is open.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	past    history
	live    live
	streams map[*stream]struct{}
}

// stream is one open page.
type stream struct {
	wake chan struct{} // gets a value when there may be something to tell
}

func acquireWatch() *watch {
	v, _, _ := watches.LoadOrNew("watch", func() (caddy.Destructor, error) {
		ctx, cancel := context.WithCancel(context.Background())
		w := &watch{cancel: cancel, done: make(chan struct{}), streams: make(map[*stream]struct{})}
		go w.run(ctx)
		return w, nil
	})
	return v.(*watch)
}

func releaseWatch() { _, _ = watches.Delete("watch") }

// Destruct ends the watch and waits for it.
func (w *watch) Destruct() error {
	w.cancel()
	<-w.done
	return nil
}

func (w *watch) run(ctx context.Context) {
	defer close(w.done)
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	w.look(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			w.look(time.Now())
		}
	}
}

// look takes in how the pools stand, if anybody wants to know.
func (w *watch) look(now time.Time) {
	w.mu.Lock()
	sampled := w.past.due(now)
	watched := len(w.streams) > 0
	w.mu.Unlock()
	if !sampled && !watched {
		return
	}
	seen := see(now, sampled) // takes the pools' locks, one after the other
	w.mu.Lock()
	defer w.mu.Unlock()
	if sampled {
		w.past.take(now, seen)
	}
	if len(w.streams) > 0 {
		w.live.take(now, seen, &w.past)
		for s := range w.streams {
			s.poke()
		}
	}
}

func (s *stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it has been told already, and looks when it can
	}
}

// join adds a stream, unless there are too many.
func (w *watch) join(now time.Time) (s *stream, ok bool) {
	w.mu.Lock()
	if len(w.streams) >= maxStreams {
		w.mu.Unlock()
		return nil, false
	}
	s = &stream{wake: make(chan struct{}, 1)}
	s.poke()
	w.streams[s] = struct{}{}
	fresh := now.Sub(w.live.at) < every
	w.mu.Unlock()
	if !fresh { // nobody had a page open: what is known is old
		w.refresh(now)
	}
	return s, true
}

// refresh looks at once, for pages that are open.
func (w *watch) refresh(now time.Time) {
	seen := see(now, false)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.streams) == 0 {
		return
	}
	w.live.take(now, seen, &w.past)
	for s := range w.streams {
		s.poke()
	}
}

func (w *watch) leave(s *stream) {
	w.mu.Lock()
	delete(w.streams, s)
	if len(w.streams) == 0 {
		w.live.forget() // a second of memory for nobody
	}
	w.mu.Unlock()
}

// sight is a pool as it was seen: its status, and what is counted beside that.
type sight struct {
	llmlb.PoolStatus
	counts map[string]*counts // by address; nil unless it is for the history
}

// counts are an endpoint's counters, which never go back while it lives.
type counts struct {
	endpoint  *llmlb.Endpoint
	decisions [maxReasons]uint64
	ttft      []uint64 // by bucket of llmlb.TTFTBounds, and one for what is over
}

// see looks at all pools, and counts only for the history.
func see(now time.Time, counting bool) []sight {
	var list []sight
	llmlb.Pools(func(p *llmlb.Pool) {
		s := sight{PoolStatus: statusOf(p, now)}
		if counting {
			s.counts = make(map[string]*counts)
			for _, e := range p.Endpoints() {
				s.counts[e.Address()] = count(e)
			}
		}
		list = append(list, s)
	})
	return list
}

// statusOf is the pool's status with names that tell all of its endpoints apart. A
// reload may give the name of one to another while the first still ends its streams:
// that one, which comes after the configured ones, is called old.
func statusOf(p *llmlb.Pool, now time.Time) llmlb.PoolStatus {
	st := p.Status(now)
	taken := make(map[string]int, len(st.Endpoints))
	for i := range st.Endpoints {
		e := &st.Endpoints[i]
		n := taken[e.Name]
		taken[e.Name]++
		switch n {
		case 0:
		case 1:
			e.Name += " (old)"
		default:
			e.Name += fmt.Sprintf(" (old %d)", n)
		}
	}
	return st
}

func count(e *llmlb.Endpoint) *counts {
	c := &counts{endpoint: e, ttft: make([]uint64, len(llmlb.TTFTBounds)+1)}
	for i, r := range reasons {
		c.decisions[i] = e.Decisions(r)
	}
	all, _, cumulative := e.TTFT.Snapshot()
	below := uint64(0)
	for i, b := range llmlb.TTFTBounds {
		c.ttft[i] = cumulative[b] - below
		below = cumulative[b]
	}
	c.ttft[len(llmlb.TTFTBounds)] = all - below
	return c
}

// maxReasons is room for every reason that a choice can have.
const maxReasons = 16

var reasons = llmlb.Reasons()[:min(len(llmlb.Reasons()), maxReasons)]
