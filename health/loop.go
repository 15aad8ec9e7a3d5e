package health

import (
	"context"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// soon is the time over which the first turns of endpoints are spread.
const soon = time.Second

// job is one kind of work that is done again and again at one endpoint.
type job interface {
	// next returns when the job wants its next turn, as things are now.
	next(now time.Time) time.Time

	// turn does it. When ctx is done it was ended by us, which says nothing of
	// the server.
	turn(ctx context.Context)
}

// loop gives a job its turns, one at a time, on a goroutine of its own, so that a
// server which hangs in one job holds up neither another job nor another server.
type loop struct {
	runner   *runner
	endpoint *llmlb.Endpoint
	upkeep   *upkeep
	hash     uint64
	begun    time.Time

	cancel context.CancelFunc
	wake   chan struct{}
	done   chan struct{}
}

// jobKind is what a loop does.
type jobKind uint8

const (
	scraping jobKind = iota
	readying
	trying
	jobKinds
)

// start begins a loop of the kind.
func (k jobKind) start(ctx context.Context, u *upkeep) *loop {
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{
		runner: u.runner, endpoint: u.endpoint, upkeep: u, hash: xxhash.Sum64String(u.endpoint.Address()), begun: time.Now(),
		cancel: cancel, wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	var j job
	switch k {
	case scraping:
		j = newScraper(l)
	case readying:
		j = &readiness{loop: l}
	default:
		j = &canary{loop: l}
	}
	go l.run(ctx, j)
	return l
}

// stop ends the loop, and what it has in flight, and waits for both.
func (l *loop) stop() {
	l.cancel()
	<-l.done
}

// nudge makes the loop look at the settings again.
func (l *loop) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *loop) run(ctx context.Context, j job) {
	defer close(l.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(j.next(time.Now())))
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
			j.turn(ctx)
		}
	}
}

// first returns when a job that is due once an interval has its first turn.
// However seldom it is, the first is wanted now.
func (l *loop) first(hash uint64, interval time.Duration) time.Time {
	return l.begun.Add(time.Duration(hash % uint64(max(1, min(interval, soon)))))
}

// slot is the time within which turns begin together. A thousand exchanges a second
// that begin one by one cost half as much again as fifty at a time.
const slot = 50 * time.Millisecond

// nextTick returns the endpoint's first tick after the given time. Ticks of
// different endpoints are spread over the interval by their hash, in slots.
func nextTick(epoch time.Time, hash uint64, interval time.Duration, after time.Time) time.Time {
	phase := time.Duration(hash % uint64(interval)).Truncate(min(slot, interval/20))
	tick := epoch.Add(phase + after.Sub(epoch.Add(phase)).Truncate(interval))
	for !tick.After(after) {
		tick = tick.Add(interval)
	}
	return tick
}
