package health

import (
	"context"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// maxScrape bounds one scrape from dial to last byte where the interval would
// allow longer.
const maxScrape = 10 * time.Second

// soon is the time over which the first scrapes of endpoints are spread.
const soon = time.Second

// loop scrapes one endpoint, one scrape at a time, and reads its list of models
// in between.
type loop struct {
	runner   *runner
	endpoint *llmlb.Endpoint
	hash     uint64
	finder   finder
	lister   lister
	news     news

	cancel context.CancelFunc
	wake   chan struct{}
	done   chan struct{}
}

func startLoop(ctx context.Context, r *runner, e *llmlb.Endpoint) *loop {
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{
		runner: r, endpoint: e, hash: xxhash.Sum64String(e.Address()),
		cancel: cancel, wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go l.run(ctx)
	return l
}

// stop ends the loop, and the scrape in flight, and waits for both.
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

func (l *loop) run(ctx context.Context) {
	defer close(l.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	last, pause := time.Now(), time.Duration(0)
	begun := last
	for {
		interval := llmlb.DefaultInterval
		if s := l.runner.pool.Current(); s != nil && s.Scrape.Interval > 0 {
			interval = s.Scrape.Interval
		}
		// The turn is counted from the end of the last scrape, so that a slow
		// server misses turns instead of getting them all at once.
		due := nextTick(l.runner.epoch, l.hash, interval, last.Add(max(0, pause-interval)))
		if last.Equal(begun) && interval > soon {
			// However seldom numbers are wanted, the first are wanted now.
			due = begun.Add(time.Duration(l.hash % uint64(soon)))
		}
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
			pause = l.turn(ctx)
			l.listModels(ctx)
			last = time.Now()
		}
	}
}

// nextTick returns the endpoint's first tick after the given time. Ticks of
// different endpoints are spread over the interval by their hash.
func nextTick(epoch time.Time, hash uint64, interval time.Duration, after time.Time) time.Time {
	phase := time.Duration(hash % uint64(interval))
	tick := epoch.Add(phase + after.Sub(epoch.Add(phase)).Truncate(interval))
	for !tick.After(after) {
		tick = tick.Add(interval)
	}
	return tick
}

// turn makes one scrape and notes what it said. It returns how long to wait
// before the next if that is longer than the interval.
func (l *loop) turn(ctx context.Context) (pause time.Duration) {
	s := l.runner.pool.Current()
	if !scraped(s, l.endpoint) {
		return 0
	}
	e, limit := l.endpoint, min(s.Scrape.Interval, maxScrape)
	if limit <= 0 {
		limit = llmlb.DefaultInterval
	}
	scrapeCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dialects, what := l.finder.next(&s.Scrape)
	page, problem := fetch(scrapeCtx, s, e.Address(), what, limit)
	defer page.release()
	now := time.Now()
	if ctx.Err() != nil {
		return 0 // ended by us: says nothing about the server
	}
	if page.own {
		switch {
		case page.answered:
			e.Reached(now)
		case page.undialed:
			e.NotReached(now, string(problem))
		}
	}
	var signals llmlb.Signals
	var found *Dialect
	var doubt reason
	if problem == "" {
		signals, found, doubt, problem = readPage(now, page, dialects)
	}
	l.lister.scraped(now, page, found)
	if problem != "" {
		problem, pause = l.finder.failed(&s.Scrape, page, problem)
		e.ObserveScrapeError(now, string(problem))
		l.news.failed(l, now, problem)
		return pause
	}
	before := l.cacheID()
	e.ObserveSignals(signals)
	restarted := before != l.cacheID()
	l.finder.found(found, restarted)
	if doubt != "" {
		e.ObserveDoubt(string(doubt))
	} else if l.finder.instead != "" {
		e.ObserveNote(string(l.finder.instead))
	}
	l.news.read(l, found, restarted)
	l.news.doubted(l, now, doubt)
	if restarted {
		l.lister.restarted()
	}
	return 0
}

func (l *loop) cacheID() uint32 {
	l.runner.pool.Lock()
	defer l.runner.pool.Unlock()
	return l.endpoint.CacheID()
}
