package transport

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// attempt is one try of a Call at an endpoint. It has a context of its own, so
// that it can be given up while the client still waits, and one timer, which
// looks after it until its answer has ended.
type attempt struct {
	t        *Transport
	call     *llmlb.Call
	endpoint *llmlb.Endpoint
	client   context.Context // ends when the client leaves
	ctx      context.Context // ends with the attempt
	cancel   context.CancelCauseFunc

	observed bool // its answer may be one that we can read
	orca     bool // the engine may tell its load in the answer's head
	keyed    bool // the server sees a key that is the client's own

	begun    time.Time
	deadline time.Duration // first-token deadline, from begun; 0 for none
	lost     <-chan struct{}
	cut      <-chan struct{}
	quiet    *llmlb.Lease // moves on when its first token is due, nil if it shows; see expect
	due      time.Time
	moved    atomic.Bool
	watchdog *time.Timer

	phase   atomic.Uint32
	waiting atomic.Int64 // since when the reader waits for more, Unix nanoseconds; 0 while it does not
}

// The phases of an attempt, as its watchdog sees them.
const (
	phaseSilent  uint32 = iota // nothing that counts has come
	phaseFlowing               // an answer is coming
	phaseGivenUp               // the watchdog has ended it
	phaseOver
)

// Why the watchdog gives an attempt up.
var (
	errNoToken = errors.New("no first token came in time")
	errStalled = errors.New("the stream stood still")
	errLost    = errors.New("the server stopped answering")
	errDrained = errors.New("the server is being drained and was to be empty by now")
	errEnded   = errors.New("the attempt is over")
)

func (t *Transport) newAttempt(c *llmlb.Call, e *llmlb.Endpoint, req *http.Request) *attempt {
	a := &attempt{t: t, call: c, endpoint: e, client: req.Context(), begun: time.Now()}
	a.ctx, a.cancel = context.WithCancelCause(a.client)
	a.observed = c.API != "" && req.Method == http.MethodPost
	if s := c.Settings; s != nil {
		a.orca = s.ORCA
		a.keyed = s.Scrape.Bearer == "" && (req.Header.Get("Authorization") != "" || req.Header.Get("X-Api-Key") != "" || req.Header.Get("Api-Key") != "")
	}
	return a
}

// gated reports whether the answer is held until it has shown a first token.
func (a *attempt) gated() bool { return a.observed && a.t.FirstToken != off }

// lookEvery is how often it is looked whether the endpoint is still there, and
// whether an operator wants it empty.
const lookEvery = time.Second

// watch starts the watchdog. What generates nothing is given up only when an
// operator has the endpoint cut.
func (a *attempt) watch() {
	if a.cut = a.endpoint.Cut(); a.call.Generates() {
		a.lost = a.endpoint.Lost()
		if a.gated() && a.call.Stream {
			a.deadline = a.t.firstTokenWithin(a.call)
		}
	}
	// Made first and started then, so that look finds it.
	a.watchdog = time.AfterFunc(time.Hour, a.look)
	a.watchdog.Reset(a.firstLook())
}

func (a *attempt) firstLook() time.Duration {
	first := lookEvery
	if a.deadline > 0 {
		first = min(first, a.deadline)
	}
	if a.quiet != nil {
		first = min(first, a.due.Sub(a.begun))
	}
	return first
}

// look gives the attempt up if nothing is to be hoped of it, and else comes back
// when there may be.
func (a *attempt) look() {
	if a.client.Err() != nil {
		return // whoever serves the request is ending it
	}
	now := time.Now()
	var next time.Duration
	var why error
	phase := a.phase.Load()
	switch {
	case phase != phaseSilent && phase != phaseFlowing:
		return
	case isClosed(a.cut):
		why = errDrained
	case !a.call.Generates():
		next = lookEvery
	case phase == phaseSilent:
		next, why = a.lookSilent(now)
	default:
		next, why = a.lookFlowing(now)
	}
	switch {
	case why == nil:
		a.watchdog.Reset(a.untilDue(now, next))
	case a.phase.CompareAndSwap(phase, phaseGivenUp):
		a.cancel(why)
	default: // the answer began, or ended, at this very moment
		a.watchdog.Reset(lookEvery)
	}
}

// untilDue moves the Lease on if its first token is due, and returns when to look
// again.
func (a *attempt) untilDue(now time.Time, next time.Duration) time.Duration {
	if a.quiet == nil || a.moved.Load() {
		return next
	}
	if left := a.due.Sub(now); left > 0 {
		return min(left, next)
	}
	if !a.moved.Swap(true) {
		a.quiet.FirstToken()
	}
	return next
}

// lookSilent waits for the first token: to its deadline, if it has one, and
// beyond while the endpoint works on others and this call may stand in its queue.
// What cannot show a first token waits until the endpoint is known to be gone.
func (a *attempt) lookSilent(now time.Time) (next time.Duration, why error) {
	if isClosed(a.lost) {
		return 0, errLost
	}
	if a.deadline == 0 {
		return lookEvery, nil
	}
	waited := now.Sub(a.begun)
	if waited >= a.deadline {
		most := a.t.firstTokenMax()
		if waited >= most || !a.endpoint.Queued(a.begun, now, a.call.Settings) {
			return 0, errNoToken
		}
		a.deadline = min(waited+a.t.firstTokenMin(), most)
	}
	return min(a.deadline-waited, lookEvery), nil
}

// lookFlowing waits for the next token. While the client does not take what
// there is nobody waits. A sequence that the engine has set aside for others has
// twice the time, and one at an endpoint that is down has little.
func (a *attempt) lookFlowing(now time.Time) (next time.Duration, why error) {
	limit, every := a.t.stallTimeout(), a.t.firstTokenMin()
	since := a.waiting.Load()
	if since == 0 {
		return min(limit, every, lookEvery), nil
	}
	from := time.Unix(0, since)
	quiet := now.Sub(from)
	if quiet >= every && a.down(now) {
		return 0, errLost
	}
	if quiet >= limit && a.endpoint.Queued(from, now, a.call.Settings) {
		limit *= 2
	}
	if quiet >= limit {
		return 0, errStalled
	}
	return min(limit-quiet, lookEvery), nil
}

// down reports whether the endpoint has stopped answering since the attempt
// began, and does not answer now.
func (a *attempt) down(now time.Time) bool {
	if !isClosed(a.lost) {
		return false
	}
	pool := a.endpoint.Pool()
	pool.Lock()
	defer pool.Unlock()
	return a.endpoint.Down(now) || a.endpoint.CheckedOut(a.call.Settings)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// flow tells the watchdog that the answer is coming. It reports false when the
// attempt has been given up before.
func (a *attempt) flow() bool {
	if !a.phase.CompareAndSwap(phaseSilent, phaseFlowing) {
		return a.phase.Load() == phaseFlowing
	}
	if a.watchdog != nil {
		a.watchdog.Reset(a.untilDue(time.Now(), min(a.t.stallTimeout(), a.t.firstTokenMin(), lookEvery)))
	}
	return true
}

// reads stands before each read of the answer, got behind those that brought
// something: a token, or anything at all where tokens are not seen.
func (a *attempt) reads() {
	if a.waiting.Load() == 0 {
		a.waiting.Store(time.Now().UnixNano())
	}
}

func (a *attempt) got() { a.waiting.Store(0) }

// end cancels the attempt at the endpoint, if it still runs there, and gives the
// Lease back. Only the first outcome counts.
func (a *attempt) end(now time.Time, o llmlb.Outcome) {
	if a.phase.Swap(phaseOver) == phaseOver {
		return
	}
	if a.watchdog != nil {
		a.watchdog.Stop()
	}
	a.cancel(errEnded)
	a.call.EndAttempt(now, o)
}

// expect moves the Lease to decode when the first token is due by prediction, for
// answers that do not show it: those that come whole, and streams in dialects we
// do not read. Until they end they speak for the endpoint, which is at work.
func (a *attempt) expect() {
	c := a.call
	if c.Lease != nil && c.Generates() && !(a.observed && c.Stream) {
		c.Lease.Quiet(c.FirstDue())
		if !c.Encodes { // its prompt is all there is to compute
			a.quiet, a.due = c.Lease, a.begun.Add(c.Decision.Predicted)
		}
	}
}
