package llmlb

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Endpoint is one inference server (replica), identified within its pool by its
// dial address. It lives across configuration reloads.
type Endpoint struct {
	pool    *Pool
	address string
	name    atomic.Pointer[string]

	// What every choice reads of every endpoint stands together. All but the hash is
	// under the pool's lock.
	hash  uint64
	cold  uint64 // when it last took a cold prefix, in the pool's own count
	brief Brief
	gone  bool // the pool has forgotten it

	// Counters, read by metrics; they never go back while the endpoint lives.
	TTFT         *Histogram // time from reservation to first token
	FirstByte    *Histogram // time from reservation to the first byte of an answer's body
	ITL          *Histogram // time between two tokens of a stream; see ObserveGap
	counts       counts
	decisions    [reasons]atomic.Uint64
	outcomes     [outcomes]atomic.Uint64
	scrapes      atomic.Uint64
	scrapeErrors atomic.Uint64
	openings     atomic.Uint64
	cancelled    atomic.Uint64 // tokens; see CancelledTokens
	checks       checkCounts
	staleConns   atomic.Int32
	progressAt   atomic.Int64 // when it was last seen to generate something, Unix nanoseconds
	sound        atomic.Bool  // nothing has gone against reach since it was last ok

	// Everything below is under the pool's lock.
	ledger   Ledger
	prefills prefills
	rates    rates
	served   served
	errors   errorRate
	reach    reach
	circuit  circuit
	overload overload
	lost     chan struct{} // see Lost; nil while nobody has asked
	quiet    map[*Lease]struct{}
	silent   silent
	quietDue time.Time // when the next of them is thought to decode, zero for none

	alive      alive
	generating generating
	drain      drain
	warmFrom   time.Time // when it came, or came back, to a pool at work
	told       State     // the last that was told of
	toldAt     time.Time // and when
	joined     time.Time // when it was put to use, zero for not yet
	servedAt   time.Time // when an attempt that counts was last served, and failed
	failedAt   time.Time

	ttft    time.Duration
	ttftAt  time.Time
	cacheID uint32

	configs int       // live configurations that name it
	leases  int       // open Leases
	lastUse time.Time // last Lease ended, or last seen among dynamic upstreams
	dynamic bool      // came from dynamic upstreams; forgotten by Sweep

	coldCalls int // open Leases that took one

	scrapedAt   time.Time // last scrape that was read, useful or not
	scrapeError string    // why the last scrape told nothing; empty when it did
}

// DefaultName is the name of an endpoint that the operator did not name:
// "ep-" and six hex digits, the same on every gateway and after every reload.
// It tells a client which server answered without telling where that is.
func DefaultName(pool, address string) string {
	return fmt.Sprintf("ep-%06x", nameHash(pool, address)&0xffffff)
}

// longName is the name where two of a pool have the same DefaultName.
func longName(pool, address string) string {
	return fmt.Sprintf("ep-%016x", nameHash(pool, address))
}

func nameHash(pool, address string) uint64 { return xxhash.Sum64String(pool + "\x00" + address) }

// Name returns the endpoint's name for people and labels.
func (e *Endpoint) Name() string { return *e.name.Load() }

// Address returns the dial address.
func (e *Endpoint) Address() string { return e.address }

// AddressHash returns the hash of the dial address, the same on every gateway.
func (e *Endpoint) AddressHash() uint64 { return e.hash }

// Pool returns the pool the endpoint belongs to.
func (e *Endpoint) Pool() *Pool { return e.pool }

// Ledger returns the endpoint's account. Use it under the pool's lock.
func (e *Endpoint) Ledger() *Ledger { return &e.ledger }

// Load is Ledger.Load under the scrape settings given. Under the pool's lock.
func (e *Endpoint) Load(now time.Time, s *Settings) Load {
	a := e.pool.Asking(now, s)
	return e.Brief(&a).Load(&a)
}

// Speed is how fast the endpoint has shown itself, or is assumed to be. Under the
// pool's lock.
func (e *Endpoint) Speed() Rate { return e.rates.rate() }

// CacheID names the contents of the endpoint's KV cache. It changes when the
// engine restarts, so that an index keyed by it forgets what is gone. Never 0.
// Under the pool's lock.
func (e *Endpoint) CacheID() uint32 { return e.cacheID }

// Asleep reports whether the engine has said of late that it has offloaded its
// weights and cannot serve. Under the pool's lock.
func (e *Endpoint) Asleep(now time.Time, s *Settings) bool {
	sig := &e.ledger.signals
	return sig.Sleeping && now.Sub(sig.At) < s.Scrape.StaleAfter
}

// ttftKeep is how long a time to first token says something about now.
const ttftKeep = time.Minute

// RecentTTFT returns the latest known time to first token: what we saw
// ourselves within a minute, else what the engine's own histogram gained
// between two scrapes. Under the pool's lock.
func (e *Endpoint) RecentTTFT(now time.Time) (time.Duration, bool) {
	if !e.ttftAt.IsZero() && now.Sub(e.ttftAt) <= ttftKeep {
		return e.ttft, true
	}
	if l := &e.ledger; !l.engineTTFTAt.IsZero() && now.Sub(l.engineTTFTAt) <= ttftKeep {
		return l.engineTTFT, true
	}
	return 0, false
}

// ObserveTTFT notes a first token seen by us: d after the attempt was sent.
func (e *Endpoint) ObserveTTFT(now time.Time, d time.Duration) {
	e.TTFT.Observe(d)
	e.pool.mu.Lock()
	e.ttft, e.ttftAt = d, now
	e.touch()
	e.pool.mu.Unlock()
}

// ObserveSignals takes in what a scrape said.
func (e *Endpoint) ObserveSignals(s Signals) {
	e.scrapes.Add(1)
	defer e.pool.roomAt(e)
	e.change(s.At, func() {
		if e.ledger.observe(s) {
			// Another process, perhaps of another engine on another accelerator.
			e.cacheID = e.pool.nextCacheID()
			e.rates, e.served, e.errors = rates{}, served{}, errorRate{}
			e.circuit.reset(s.At)
			e.overload = overload{}
			e.generating.restart(s.At)
			e.warmFrom = s.At     // its cache is cold
			e.staleConns.Store(0) // those were the old process's connections
		}
		e.served.resident.observe(&s)
		e.scrapedAt, e.scrapeError = s.At, ""
	})
}

// ObserveScrapeError notes a scrape that told nothing, and reports whether the
// reason is a new one: worth a log line.
func (e *Endpoint) ObserveScrapeError(now time.Time, reason string) (news bool) {
	e.scrapes.Add(1)
	e.scrapeErrors.Add(1)
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	news = e.scrapeError != reason
	e.scrapedAt, e.scrapeError = now, reason
	if now.Sub(e.ledger.signals.At) > modelsKeep {
		e.served.resident = resident{} // may have been unloaded long ago
		e.touch()
	}
	return news
}

// CountDecision counts a choice of this endpoint.
func (e *Endpoint) CountDecision(r Reason) { e.decisions[r].Add(1) }

// ErrorRate returns the share of the latest attempts that failed. Under the
// pool's lock.
func (e *Endpoint) ErrorRate(now time.Time) float64 { return e.errors.rate(now) }

// observeStream takes in the mean time between two tokens of one answer.
func (e *Endpoint) observeStream(itl time.Duration) {
	e.pool.mu.Lock()
	e.rates.stream(itl.Seconds())
	e.touch()
	e.pool.mu.Unlock()
}

// CircuitOpenings returns how often the endpoint's circuit has opened.
func (e *Endpoint) CircuitOpenings() uint64 { return e.openings.Load() }

// CancelledTokens returns how many tokens the endpoint has computed, or had begun
// to compute, for Calls whose clients left before the end: the prompt, as far as it
// was not in its cache, and what was generated. Engines stop at the end of a step
// when a connection is closed, some only after a second.
func (e *Endpoint) CancelledTokens() uint64 { return e.cancelled.Load() }

// Decisions returns how often the endpoint was chosen for the reason.
func (e *Endpoint) Decisions(r Reason) uint64 { return e.decisions[r].Load() }

// Ended returns how many attempts here ended with the outcome.
func (e *Endpoint) Ended(o Outcome) uint64 { return e.outcomes[o].Load() }

// Scrapes returns how many scrapes were tried and how many told nothing.
func (e *Endpoint) Scrapes() (tried, failed uint64) {
	return e.scrapes.Load(), e.scrapeErrors.Load()
}

// staleLimit is how many stale connections show that a server closes its
// connection after each reply without saying so, as llama.cpp does.
const staleLimit = 2

// NoteStaleConnection counts a reused connection that turned out dead.
func (e *Endpoint) NoteStaleConnection() { e.staleConns.Add(1) }

// ClosesAfterReply reports whether connections to the endpoint should not be
// reused.
func (e *Endpoint) ClosesAfterReply() bool { return e.staleConns.Load() >= staleLimit }

// ColdTurn returns when the endpoint last took a cold prefix, as a count that
// rises with every such choice in the pool. Under the pool's lock.
func (e *Endpoint) ColdTurn() uint64 { return e.cold }

// ColdCalls returns how many of our open calls there were cold when they were
// placed. Under the pool's lock.
func (e *Endpoint) ColdCalls() int { return e.coldCalls }
