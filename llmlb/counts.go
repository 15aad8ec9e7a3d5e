package llmlb

import (
	"sync/atomic"
	"time"
)

// counts is what metrics show of an endpoint besides its histograms. The numbers
// never go back while the endpoint lives.
type counts struct {
	cacheHit, cacheMiss, cacheUntold atomic.Uint64 // prompt tokens
	output                           atomic.Uint64 // tokens
	failures                         [scrapeFailures]atomic.Uint64
	changes                          [states]atomic.Uint64
}

// TokenCounts is how many tokens an endpoint has been asked with and has generated.
type TokenCounts struct {
	// Hit and Miss are prompt tokens that the engine has found in its cache, and
	// those that it has not. Untold are those of prompts of which it did not say.
	Hit, Miss, Untold uint64

	// Output is what it has generated, seen or told, of answers that were cut too.
	Output uint64
}

// Tokens returns what this gateway's requests have had of the endpoint.
func (e *Endpoint) Tokens() TokenCounts {
	c := &e.counts
	return TokenCounts{
		Hit: c.cacheHit.Load(), Miss: c.cacheMiss.Load(), Untold: c.cacheUntold.Load(), Output: c.output.Load(),
	}
}

// countTokens counts an attempt that has ended at the Lease's endpoint. Where the
// engine has told nothing it is what was estimated and seen.
func (c *Call) countTokens(o Outcome) {
	const badRequest = 400
	if c.Status >= badRequest || o != Served && o != Truncated && o != ClientGone {
		return
	}
	n := &c.Lease.endpoint.counts
	switch {
	case c.PromptTokens >= 0 && c.CachedTokens >= 0:
		hit := min(c.CachedTokens, c.PromptTokens)
		n.cacheHit.Add(uint64(hit))
		n.cacheMiss.Add(uint64(c.PromptTokens - hit))
	case c.PromptTokens >= 0:
		n.cacheUntold.Add(uint64(c.PromptTokens))
	case !c.Opaque && (o == Served || !c.FirstToken.IsZero()):
		n.cacheUntold.Add(uint64(c.InputTokens))
	}
	if out := max(c.OutputTokens, c.TokenEvents); out > 0 || c.Encodes {
		n.output.Add(uint64(max(0, out)))
	} else {
		n.output.Add(uint64(float64(c.AnswerBytes) / DefaultRatio))
	}
}

// ObserveGap notes that n more tokens of a stream have come, d after those before.
func (e *Endpoint) ObserveGap(d time.Duration, n int) {
	if n > 0 {
		e.ITL.observe(d.Seconds()/float64(n), n)
	}
}

// StateChanges returns how often it was told that the endpoint has come into the
// state.
func (e *Endpoint) StateChanges(to State) uint64 { return e.counts.changes[to].Load() }

// ScrapeFailure is why a scrape told nothing, or not all, in a word for metrics.
type ScrapeFailure uint8

// The failures.
const (
	ScrapeUnreachable ScrapeFailure = iota // no connection, or it broke
	ScrapeTimeout
	ScrapeTLS
	ScrapeStatus // the server answers with an error
	ScrapeFormat // what it answers cannot be read
	ScrapeNoLoad // it can, and tells no load
	ScrapeValue  // a value that cannot be; the rest of the page counts
	scrapeFailures
)

var scrapeFailureNames = [scrapeFailures]string{"unreachable", "timeout", "tls", "status", "format", "no_load", "value"}

// String returns the name used as a metric label.
func (f ScrapeFailure) String() string {
	if f >= scrapeFailures {
		return "unknown"
	}
	return scrapeFailureNames[f]
}

// CountScrapeFailure counts the failure of a scrape by its kind.
func (e *Endpoint) CountScrapeFailure(f ScrapeFailure) { e.counts.failures[f].Add(1) }

// ScrapeFailures calls f with how many scrapes have failed in which way.
func (e *Endpoint) ScrapeFailures(f func(kind ScrapeFailure, n uint64)) {
	for kind := range scrapeFailures {
		f(kind, e.counts.failures[kind].Load())
	}
}
