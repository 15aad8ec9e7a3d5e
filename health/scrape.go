package health

import (
	"context"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// maxScrape bounds one scrape from dial to last byte where the interval would
// allow longer.
const maxScrape = 10 * time.Second

// scraper reads an endpoint's load, and its list of models in between.
type scraper struct {
	*loop

	finder finder
	lister lister
	news   news

	memo  memo
	last  time.Time // when the last turn ended
	pause time.Duration
}

func newScraper(l *loop) *scraper { return &scraper{loop: l, last: l.begun} }

// next implements job.
func (l *scraper) next(time.Time) time.Time {
	interval := llmlb.DefaultInterval
	if s := l.runner.pool.Current(); s != nil && s.Scrape.Interval > 0 {
		interval = s.Scrape.Interval
	}
	if l.last.Equal(l.begun) && interval > soon {
		return l.first(l.hash, interval)
	}
	// The turn is counted from the end of the last scrape, so that a slow
	// server misses turns instead of getting them all at once.
	return nextTick(l.runner.epoch, l.hash, interval, l.last.Add(max(0, l.pause-interval)))
}

// turn implements job.
func (l *scraper) turn(ctx context.Context) {
	l.pause = l.scrape(ctx)
	l.listModels(ctx)
	l.last = time.Now()
}

// scrape makes one scrape and notes what it said. It returns how long to wait
// before the next if that is longer than the interval.
func (l *scraper) scrape(ctx context.Context) (pause time.Duration) {
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
	what.memo = &l.memo
	page, problem := fetch(scrapeCtx, s, e.Address(), what, limit)
	defer page.release()
	now := time.Now()
	if ctx.Err() != nil {
		return 0 // ended by us: says nothing about the server
	}
	page.note(e, now, problem)
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
		e.CountScrapeFailure(problem.kind())
		l.news.failed(l, now, problem)
		return pause
	}
	before := l.cacheID()
	e.ObserveSignals(signals)
	restarted := before != l.cacheID()
	l.finder.found(found, restarted)
	if doubt != "" {
		e.ObserveDoubt(string(doubt))
		e.CountScrapeFailure(llmlb.ScrapeValue)
	} else if l.finder.instead != "" {
		e.ObserveNote(string(l.finder.instead))
	}
	if l.news.read(l, found, restarted) {
		l.runner.nudge(e) // its readiness may be asked elsewhere
	}
	l.news.doubted(l, now, doubt)
	if restarted {
		l.lister.restarted()
	}
	return 0
}

func (l *scraper) cacheID() uint32 {
	l.runner.pool.Lock()
	defer l.runner.pool.Unlock()
	return l.endpoint.CacheID()
}
