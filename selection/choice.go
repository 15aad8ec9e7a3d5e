package selection

import (
	"sync"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Verdict is what came of a choice.
type Verdict uint8

// The verdicts.
const (
	// None: nothing usable, and waiting for a place would not help.
	None Verdict = iota

	// Full: some endpoint would do, but limits (max_concurrent) are reached.
	// It passes when a Lease ends.
	Full

	// Overloaded: some endpoint would do, but has said that it has too much to
	// do, to others or to this Call. The Call's RetryAt tells when the first of
	// them takes work again; call [llmlb.Call.Readmit] then and ask again.
	Overloaded

	// Busy: some endpoint would do, but has as much work as keeps it busy. Only
	// [Place] holds back so.
	Busy

	// Granted: the Call has a Lease and a Decision.
	Granted

	// Later: the choice belongs to Select, which alone knows the upstreams
	// (they are dynamic). Not an error: call the next handler without a Lease.
	Later
)

// seat is one endpoint as a choice sees it. All seats are looked at many times, so
// that a seat has what is compared; the rest is in the endpoint's Brief.
type seat struct {
	endpoint *llmlb.Endpoint
	member   *llmlb.Member // what the configuration says of it; nil when dynamic
	upstream int           // index in the slice that Select was given, or outside

	available bool // by Caddy's own checks
	blind     bool
	failing   bool // attempts failed there a moment ago
	lacks     bool // it is known which models it serves, and the Call's is none of them
	onTrial   bool // down, and due for a trial
	over      bool // it has as much as its share allows; see ration
	warm      bool
	home      bool // the Call's key falls on it
	scored    bool // the scorers were asked about it
	barred    barred
	parts     int32 // where in choice.said it begins what they said

	share   float64 // of its usual share of work: 1, less while it warms up or is degraded
	ahead   float64 // the effort of those who wait for it and will be served before this Call
	own     int     // our own open calls
	cold    int     // those of them that were cold
	matched int     // prompt tokens believed to be in its KV cache
	proved  int     // those of them that a first token has proved

	waiting   float64 // requests in its queue
	running   float64 // sequences in its batch
	context   float64 // prompt tokens of our own open calls
	beginning float64 // requests whose prompts stand before this Call's
	prefill   float64 // prompt tokens that stand before this Call, as effort

	rate  llmlb.Rate // with the operator's weight, at its whole share
	fresh float64    // how much of the learned speed counts
	delay float64    // seconds until the adapter or model is ready

	ttft float64 // predicted time to first token, in seconds
	wait float64 // what of the cost is others' doing, in seconds
	cost float64 // what the strategy minimises: seconds, or 1 − score
}

// brief is what the endpoint was when it was surveyed.
func (s *seat) brief() *llmlb.Brief { return s.endpoint.LastBrief() }

// choice is one choice being made: scratch space that is used again, so that
// choosing allocates nothing that grows with the pool.
type choice struct {
	call     *llmlb.Call
	settings *llmlb.Settings
	now      time.Time
	asking   llmlb.Asking
	random   uint64
	model    uint64 // hash of the Call's model
	alone    bool   // no admission handler waits in front
	hold     bool   // a seat with enough to do is waited for
	rationed bool   // some seat's share is not whole
	blinds   bool   // some seat is blind
	trials   bool   // some seat is due for a trial

	seats   []seat
	used    int        // how many of their memory point to something
	kinds   []barred   // the different sets of bars among them
	left    []*seat    // seats that passed the filter
	usable  int        // how many those were
	trial   bool       // they are one, which is to get a trial
	over    []*seat    // those that have as much as their share allows
	aside   []*seat    // scratch of the strategies
	scored  llmlb.View // the seat that the scorers are asked about
	said    []float64  // what the scorers said of all seats
	prices  []float64  // scratch of leastBy
	holders []holder
	where   whereabouts // of the holders
	best    int         // the longest match on any seat, in tokens
	uncut   cut         // see effort
	atHome  *seat       // see homeOf
	behind  *seat       // the warm seat that a spill leaves
}

var choices = sync.Pool{New: func() any { return new(choice) }}

// newChoice begins a choice for the Call. The prefix index is asked here,
// before the pool's lock is taken.
func newChoice(c *llmlb.Call, ix *index, now time.Time) *choice {
	ch := choices.Get().(*choice)
	ch.call, ch.settings, ch.now = c, c.Settings, now
	c.ExpectedOutput() // asks the pool, whose lock is not held yet
	ch.model = llmlb.ModelHash(c.Model)
	ch.random = ix.random(now)
	ch.holders = ix.lookup(c.Blocks, now, ch.holders[:0])
	return ch
}

// free gives the scratch space back. What the seats point to is let go when as many
// are taken again, or when nobody has chosen for two rounds of the garbage
// collector: to clear a thousand each time would cost more than to fill them in.
func (ch *choice) free() {
	if n := len(ch.seats); n < ch.used {
		clear(ch.seats[n:ch.used])
	}
	clear(ch.left[:cap(ch.left)])
	clear(ch.over[:cap(ch.over)])
	clear(ch.aside[:cap(ch.aside)])
	*ch = choice{
		seats: ch.seats[:0], used: len(ch.seats), kinds: ch.kinds[:0], left: ch.left[:0], over: ch.over[:0], aside: ch.aside[:0],
		said: ch.said[:0], prices: ch.prices[:0], holders: ch.holders[:0],
	}
	choices.Put(ch)
}

// addMembers takes the upstreams that the Call may use as seats.
func (ch *choice) addMembers() {
	if ch.settings.Delegated { // to a policy that sees those of its proxy alone
		for i := range ch.settings.Members {
			ch.addMember(&ch.settings.Members[i])
		}
		return
	}
	for m := range ch.call.Pool.Reachable(ch.settings) {
		ch.addMember(m)
	}
}

func (ch *choice) addMember(m *llmlb.Member) {
	s := ch.addSeat()
	s.endpoint, s.member, s.upstream = ch.call.Pool.Living(m.Endpoint), m, outside
	s.available = available(m)
}

// addSeat returns one more.
func (ch *choice) addSeat() *seat {
	ch.seats = append(ch.seats, seat{})
	return &ch.seats[len(ch.seats)-1]
}

// outside is the place of an upstream that the proxy was not given.
const outside = -1

// reserve makes the choice and books it. Under the pool's lock, in the same
// critical section that added the seats.
func (ch *choice) reserve() (*seat, Verdict) {
	ch.survey()
	if v := ch.filter(); v != Granted {
		return nil, v
	}
	if !ch.withinShare() && ch.hold && !ch.onlySlow() {
		return nil, Busy
	}
	ch.trial = ch.giveTrial()
	ch.impute()
	ch.capBlind()
	ch.learned()
	ch.score()
	ch.findHome()
	picked, d := ch.pick()
	if ch.hold && !ch.hasRoom(picked) {
		if ch.waitsFor(picked) {
			return picked, Busy
		}
		if !ch.onlyRoom() {
			if !ch.onlySlow() {
				return nil, Busy
			}
			ch.learned()
			ch.score()
			ch.findHome()
		}
		ch.behind = nil
		picked, d = ch.pick()
	}
	ch.book(picked, d)
	return picked, Granted
}

// book reserves the seat for the Call.
func (ch *choice) book(picked *seat, d llmlb.Decision) {
	c, e := ch.call, picked.endpoint
	output := 0
	if c.Generates() {
		output = c.ExpectedOutput()
	}
	c.Lease = c.Pool.Reserve(e, ch.now, llmlb.Work{Uncached: ch.uncached(picked), Cached: picked.matched, Output: output})
	if c.Key != 0 && !picked.warm {
		c.Lease.TakeCold()
	}
	if picked.delay > 0 {
		c.Lease.Loading(ch.model)
	}
	c.Decision = d
	if c.Generates() {
		e.CountDecision(d.Reason)
		ch.record(picked)
	}
}

// pick applies the strategy to the seats that are left.
func (ch *choice) pick() (*seat, llmlb.Decision) {
	ch.call.SentHome = false // of an earlier pick
	warm := ch.markWarm()
	if ch.settings.Strategy == StrategyWeighted {
		ch.hear()
	}
	var s *seat
	var reason llmlb.Reason
	switch {
	case ch.usable == 1:
		s, reason = ch.left[0], llmlb.ReasonOnly
	case ch.trial:
		s, reason = ch.left[0], llmlb.ReasonTrial
	case ch.settings.Strategy == StrategyWeighted:
		s, reason = ch.weighted(warm)
	case warm == 0 || ch.settings.Strategy == StrategyWork && !ch.distinct():
		s, reason = ch.cold(), llmlb.ReasonCold
	case ch.settings.Strategy == StrategyPrefixSpill:
		s, reason = ch.prefixSpill()
	default:
		s, reason = ch.work()
	}
	return s, ch.decision(s, reason, warm)
}

// longest bounds a prediction, in seconds: numbers of engines go into it.
const longest = 24 * 3600

func (ch *choice) decision(s *seat, reason llmlb.Reason, warm int) llmlb.Decision {
	// What failed attempts have left keeps work away. Nobody has to wait for it,
	// so it gives no server more time; nor for those who wait here and have not
	// been sent.
	ttft := s.ttft
	if s.rate.Speed > 0 {
		ttft -= (s.brief().Booked.Phantom + s.ahead) / s.rate.Speed
	}
	d := llmlb.Decision{
		Reason: reason, Matched: s.matched, Best: ch.best, Warm: warm,
		Predicted: time.Duration(min(max(0, ttft), longest) * float64(time.Second)),
	}
	if ch.behind != nil {
		d.Left = ch.behind.endpoint.Name()
	}
	return d
}

// markWarm marks the seats that hold the prompt's prefix: at least the share
// `affinity` of the best match among them, and at least min_tokens. Of a prompt
// too short for that, the same share of the prompt itself is enough: next to
// nothing of it is left to compute.
func (ch *choice) markWarm() (n int) {
	if ch.best == 0 {
		return 0 // on any seat
	}
	best := 0
	for _, s := range ch.left {
		best = max(best, s.matched)
	}
	share := func(tokens int) int { return int(ch.settings.Affinity * float64(tokens)) }
	least := max(1, min(ch.settings.MinTokens, share(ch.call.InputTokens)), share(best))
	for _, s := range ch.left {
		if s.warm = s.matched >= least; s.warm {
			n++
		}
	}
	return n
}

// cut is what is left to compute of the prompt where so much of it matches.
type cut struct {
	known   bool
	matched int
	effort  float64
}

// effort is the work of computing them. Nearly all seats match alike.
func (ch *choice) effort(s *seat) float64 {
	if c := &ch.uncut; !c.known || c.matched != s.matched {
		*c = cut{true, s.matched, float64(llmlb.Work{Uncached: ch.uncached(s), Cached: s.matched}.Effort())}
	}
	return ch.uncut.effort
}

// uncached is how many prompt tokens the seat's endpoint would have to compute.
// Engines always compute the last one.
func (ch *choice) uncached(s *seat) int {
	return max(min(1, ch.call.InputTokens), ch.call.InputTokens-s.matched)
}
