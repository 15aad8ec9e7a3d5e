package llmlb

import (
	"context"
	"time"
)

// Call is one client request from arrival to last byte. It belongs to the
// goroutine that serves the request; nothing in it is locked.
type Call struct {
	Features

	Pool     *Pool
	Settings *Settings // of the configuration the Call began under
	Arrival  time.Time

	// Body is the whole request body, kept so that every attempt can send it
	// again. Nil when the request has none or it was not read.
	Body []byte

	// Tenant is whom the Call is counted for, empty when nobody is told apart.
	Tenant string

	// Lease is the reservation the next attempt uses, or the current one
	// holds.
	Lease *Lease

	// SentHome says that nothing was known of the Call's prompt, and that it was sent
	// to the home of its conversation.
	SentHome bool

	// Tried is the endpoint of the attempt begun last, nil before.
	Tried *Endpoint

	// Decision is why Lease's endpoint was chosen.
	Decision Decision

	// Attempts counts attempts that were begun.
	Attempts int

	// Status is the response status an endpoint answered with, 0 before.
	Status int

	// FirstToken is when the first token came, zero before. A role-only chunk,
	// a comment or a usage chunk is not a token.
	FirstToken time.Time

	// LastToken is when the newest token of a stream came, and TokenEvents how
	// many events with one there were.
	LastToken   time.Time
	TokenEvents int

	// AnswerBytes is how much text has come of an answer that comes whole, in
	// bytes with their JSON around them.
	AnswerBytes int

	// Usage as the engine told it; Unknown where it did not.
	PromptTokens, CachedTokens, OutputTokens int

	// Outcome of the last attempt, OutcomeNone while it runs.
	Outcome Outcome

	// Refusal is a code word for why the Call was answered here, empty
	// otherwise.
	Refusal string

	// Learn, when set, is called once when the prompt's prefill is proved: at
	// the first token, or at the end of an answer that came whole. The prefix
	// index learns from it.
	Learn func(now time.Time)

	// Correct, when set, is called once with the prompt tokens that the engine
	// says it found in its cache, after Learn. The prefix index checks itself
	// by it.
	Correct func(cached int)

	// Exhausted says that a choice found nothing eligible for this Call, so
	// that further tries need not look again.
	Exhausted bool

	// Answering says that somebody in front, the admission handler, gives the
	// client Kept when nothing better came. Without it an answer, however bad,
	// must not be dropped for another attempt.
	Answering bool

	// Kept is what the client gets when no attempt is left, nil for nothing.
	Kept *Kept

	// RetryAt is when the first of the endpoints that the last choice found
	// overloaded, and free of any other bar, takes work again. Zero when there
	// was none.
	RetryAt time.Time

	// Silences is how many attempts have ended for want of a first token.
	Silences int

	// FirstByte is when the first byte of the answer's body came, zero before.
	FirstByte time.Time

	// Line, when set, tells how much work stands before the Call at an endpoint,
	// besides what the endpoint has already: that of Calls which wait for it and
	// will be served first. The queue sets it while the Call is placed.
	Line interface{ Ahead(e *Endpoint) float64 }

	// Impatient says that the Call has waited too long for the endpoint that has
	// its prefix, and takes any that has room.
	Impatient bool

	// Held says that the last choice has left an endpoint unused that has room,
	// because it warms up and has its share.
	Held bool

	// Last says that the Call may have to be refused if it gets no place now: it is
	// not held back for a warm-up any more. The queue sets it.
	Last bool

	// Class is the service level the Call belongs to, empty where there is no
	// queue.
	Class string

	// Waited is how long the Call has waited for its turn, in all.
	Waited time.Duration

	// StripUsage says that usage was asked for in the client's place, so the
	// chunk that has nothing else is not for it.
	StripUsage bool

	// Crowded says that the last choice found every usable endpoint at a limit:
	// what was free when the Call was let through has gone to others.
	Crowded bool

	// Ended, when set, is called once when the answer is known to be whole, before
	// its last bytes are passed on. A client that sends its next request at once
	// must not find this one in its way.
	Ended func()

	// Placed is what whoever answers the client tells of how the request was placed,
	// where that is the admission handler. The transport sets it with an answer.
	Placed Placed

	// Released, when set, is called once when the body is no longer held.
	Released func()

	excluded []exclusion
	forgiven int  // attempts that reached nobody, before the Call waited
	worked   bool // see Worked
	body     *content
	givenUp  bool   // see GivenUp
	failedAs uint16 // outcomes of attempts that counted against a circuit, as a set
	expected int    // ExpectedOutput, once asked for
}

// NewCall returns a Call with nothing known of its usage.
func NewCall(pool *Pool, settings *Settings, arrival time.Time) *Call {
	return &Call{
		Pool: pool, Settings: settings, Arrival: arrival,
		PromptTokens: Unknown, CachedTokens: Unknown, OutputTokens: Unknown,
	}
}

// String keeps the prompt out of anything that prints a Call.
func (c *Call) String() string { return "call" }

// GoString does the same for %#v.
func (c *Call) GoString() string { return "call" }

// Begin notes that an attempt at the endpoint begins, with the Call's Lease if it
// has one. Whoever chooses the endpoint says so, once for each attempt, after the
// choice and before anything is sent.
func (c *Call) Begin(e *Endpoint, now time.Time) {
	c.Attempts++
	c.Outcome, c.Tried = OutcomeNone, e
	p := e.pool
	p.mu.Lock()
	p.budget.began(now, c.Attempts == 1)
	quiet := c.Lease != nil && c.Generates() && !c.Stream && !c.Encodes
	if quiet {
		c.Lease.quietly(c.FirstDue())
	}
	p.mu.Unlock()
	if quiet {
		p.roomAt(e) // what is known to be silent may leave more
	}
}

// FirstDue is when the first token is taken to have come of an answer that shows
// none: half of what was predicted after the Call was placed. A prompt that counts
// for too long keeps work from a server that has none, and what was predicted of
// each of many such would keep it idle for good; one that counts too short only
// waits there. Zero where nothing is generated.
func (c *Call) FirstDue() time.Time {
	if c.Encodes {
		return time.Time{}
	}
	return c.Lease.start.Add(c.Decision.Predicted / 2)
}

// ExpectedOutput is how many tokens the Call is expected to generate: the mean
// of such answers so far, within the client's own ceiling. Until there are some
// it is half the ceiling, within what people commonly ask for, and 256 without
// one.
func (c *Call) ExpectedOutput() int {
	if c.expected == 0 {
		c.expected = c.expectOutput()
	}
	return c.expected
}

func (c *Call) expectOutput() int {
	if c.Encodes {
		return 1 // which is computed with the prompt
	}
	if mean := c.Pool.expectedOutput(c); mean > 0 {
		if c.MaxOutputTokens > 0 {
			return min(mean, c.MaxOutputTokens)
		}
		return mean
	}
	if c.MaxOutputTokens <= 0 {
		return usualOutput
	}
	return min(max(1, c.MaxOutputTokens/2), 1024)
}

// SawFirstToken notes the first token of the answer: the Lease moves to decode,
// the endpoint's TTFT is measured from the moment it was reserved, and the
// prefix index learns. Only the first call counts.
func (c *Call) SawFirstToken(now time.Time) {
	if !c.FirstToken.IsZero() || c.Lease == nil {
		return
	}
	c.FirstToken = now
	c.Lease.sawFirstToken(now)
	if !c.StreamUsage {
		// The engine will most likely not say how long the prompt was: our own
		// estimate is all there is, and the answer may take minutes.
		c.Lease.learnSpeed(c.Lease.effort)
	}
	c.Lease.Endpoint().ObserveTTFT(now, now.Sub(c.Lease.Start()))
	c.learned(now)
}

// SawEnd notes that all of the answer has come.
func (c *Call) SawEnd() {
	if f := c.Ended; f != nil {
		c.Ended = nil
		f()
	}
}

// SawWhole notes an answer that came in one piece and was complete: it proves
// the prefill but says nothing of the time to first token.
func (c *Call) SawWhole(now time.Time) {
	if c.FirstToken.IsZero() {
		c.learned(now)
	}
}

func (c *Call) learned(now time.Time) {
	if c.Learn != nil {
		c.Learn(now)
		c.Learn = nil
	}
	c.correct()
}

// correct checks the index by what the engine told, once it has learned and the
// answer has said it.
func (c *Call) correct() {
	if c.Correct != nil && c.Learn == nil && c.CachedTokens >= 0 {
		c.Correct(c.CachedTokens)
		c.Correct = nil
	}
}

// Generates reports whether the Call makes an engine generate. What does not, a
// list of models or a health check, is placed like any Call but counts for
// nothing in metrics and limits.
func (c *Call) Generates() bool { return c.InputTokens > 0 }

// EndAttempt gives the current Lease back and counts how the attempt ended. The
// first outcome of an attempt counts; without a Lease nothing happens.
func (c *Call) EndAttempt(now time.Time, o Outcome) {
	if c.Lease == nil {
		return
	}
	if c.Generates() {
		c.Lease.Endpoint().ended(now, c, o)
		if o == FirstTokenTimeout {
			c.Silences++
		}
		if o == ClientGone {
			c.Lease.Endpoint().cancelled.Add(uint64(c.computed() + max(c.OutputTokens, c.TokenEvents)))
		}
		if o == Served {
			c.learnUsage(now)
		} else if !o.Failed() {
			// Clients leave slow servers first: they must not be the ones that
			// nothing is learned of.
			c.Lease.learnSpeed(c.Lease.effort)
		}
		c.countTokens(o)
	}
	c.Lease.End(now)
	c.Lease, c.Outcome = nil, o
	c.worked = c.worked || o != Unreachable && o != Overloaded || c.TokenEvents > 0
}

// learnUsage takes in what a whole answer taught.
func (c *Call) learnUsage(now time.Time) {
	if c.OutputTokens < 0 && c.TokenEvents > 0 {
		c.OutputTokens = c.TokenEvents // nearly every engine sends a token an event
	}
	c.Pool.learnUsage(c, now)
	c.Pool.learnHome(c)
	c.Lease.learnSpeed(Work{Uncached: c.computed(), Cached: max(0, c.CachedTokens)}.Effort())
	if n := c.OutputTokens - 1; n >= minStream && c.LastToken.After(c.FirstToken) && !c.FirstToken.IsZero() {
		c.Lease.Endpoint().observeStream(c.LastToken.Sub(c.FirstToken) / time.Duration(n))
	}
	c.correct()
}

// computed is how many prompt tokens the engine had to compute: what it says, as
// far as it does.
func (c *Call) computed() int {
	switch {
	case c.PromptTokens <= 0:
		return c.Lease.Uncached()
	case c.CachedTokens < 0:
		return max(1, int(float64(c.Lease.Uncached())*float64(c.PromptTokens)/float64(max(1, c.InputTokens))))
	}
	return max(1, c.PromptTokens-c.CachedTokens)
}

// minStream is the shortest stream that says anything of the time between two
// tokens.
const minStream = 4

type callKey struct{}

// WithCall returns a context that carries the Call.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf returns the context's Call, or nil.
func CallOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}
