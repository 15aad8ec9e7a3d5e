package llmlb

import "time"

// Ledger is an endpoint's running account of load. It merges what scrapes say,
// which lags and is shared with other gateways, with the Leases we issued
// ourselves, which are exact but blind to others. Neither alone is the truth.
//
// The zero value is an endpoint about which nothing is known and to which
// nothing was sent. All methods run under the pool's lock.
type Ledger struct {
	own account

	// peak is the most calls we held at any moment of the window that a scrape
	// begins, or a header where there are no scrapes; past is that of the window
	// before.
	peak, past peak
	denial     denial
	since      time.Time // when the window began

	// sent counts own calls that went out since the last scrape ended, which
	// that scrape therefore cannot have seen.
	sent int

	// held is how many own calls were open when the last scrape ended.
	held int

	phantom phantom

	signals Signals   // the last that told load
	scraped bool      // signals is real
	pageAt  time.Time // when the last scrape ended

	asleepSince time.Time // when the engine was first seen asleep

	foreignWaiting float64
	foreignRunning float64
	others         others

	// meanPrompt is the moving average of the effort of a call's prompt, and
	// squarePrompt that of its square. They turn foreign requests, which scrapes
	// count, into work, which scores need.
	meanPrompt, squarePrompt float64

	// tokensPerSecond and engineTTFT come from counters between two scrapes.
	tokensPerSecond float64 // 0 when not known; see speedKnown
	speedKnown      bool
	engineTTFT      time.Duration
	engineTTFTAt    time.Time
	restartedAt     time.Time

	// progressAt is a moment since which the engine is known to have computed
	// something: what counters say at one scrape happened after the one before.
	progressAt time.Time
}

// account is our own work at an endpoint at one moment.
type account struct {
	prefillTokens int // uncached prompt tokens without a first token yet
	effort        int // the work of computing them; see Work.Effort
	context       int // prompt tokens of all open calls, cached or not
	prefillCalls  int
	decodeCalls   int
	outputTokens  int // expected output tokens of all open calls
}

// peak is the most calls we held at any moment of a window of time.
type peak struct {
	prefill int // without a first token
	calls   int // all
}

func (p peak) or(q peak) peak {
	return peak{prefill: max(p.prefill, q.prefill), calls: max(p.calls, q.calls)}
}

func (a *account) calls() int { return a.prefillCalls + a.decodeCalls }

// Priors and averages of the ledger.
const (
	// priorPrompt is the assumed uncached prompt of a request, in tokens, until
	// our own traffic teaches better.
	priorPrompt = 1000
	// promptWeight is the weight of a new prompt in the moving average.
	promptWeight = 0.05
	// maxPrompt is the longest prompt that counts in full.
	maxPrompt = 128 << 10
	// restartQuiet is how long after a restart counters that run backwards are
	// none: several workers behind one port take turns with their counters.
	restartQuiet = time.Minute
)

// reserve books a call.
func (l *Ledger) reserve(w Work) {
	l.own.prefillTokens += w.Uncached
	l.own.effort += w.Effort()
	l.own.context += w.context()
	l.own.prefillCalls++
	l.own.outputTokens += w.Output
	l.sent++
	l.raisePeak()
}

// firstToken moves a call from prefill to decode. Its prompt has proved to be
// one, so it counts in the mean; what an engine refused does not.
func (l *Ledger) firstToken(w Work) {
	x := float64(min(w.Effort(), maxPrompt))
	l.meanPrompt, l.squarePrompt = l.promptMean(), l.promptSquare()
	l.meanPrompt += promptWeight * (x - l.meanPrompt)
	l.squarePrompt += promptWeight * (x*x - l.squarePrompt)
	l.own.prefillTokens -= w.Uncached
	l.own.effort -= w.Effort()
	l.own.prefillCalls--
	l.own.decodeCalls++
	l.raisePeak()
}

// release ends a call in the given phase.
func (l *Ledger) release(phase Phase, w Work) {
	if phase == Prefill {
		l.own.prefillTokens -= w.Uncached
		l.own.effort -= w.Effort()
		l.own.prefillCalls--
	} else {
		l.own.decodeCalls--
	}
	l.own.outputTokens -= w.Output
	l.own.context -= w.context()
	l.denial.least = min(l.denial.least, l.own.calls())
}

// raisePeak keeps the most we held at any moment since the window began. A
// scrape's numbers were taken at some moment in it, so subtracting the peak never
// counts our own work twice; at worst it hides a little of others'.
func (l *Ledger) raisePeak() {
	l.peak = l.peak.or(peak{prefill: l.own.prefillCalls, calls: l.own.calls()})
}

// nextWindow begins another window.
func (l *Ledger) nextWindow(now time.Time) {
	l.past, l.peak, l.since = l.peak, peak{}, now
	l.denial.least = l.own.calls()
	l.raisePeak()
}

// otherWaiting and otherRunning take in what an engine counts, of which we sent
// as much as held.
func (l *Ledger) otherWaiting(waiting float64, held peak) {
	l.foreignWaiting = max(0, waiting-float64(held.prefill))
}

func (l *Ledger) otherRunning(running float64, held peak) {
	// All own calls count here: one that prefills is in the batch already.
	l.foreignRunning = max(0, running-float64(held.calls))
}

// observe takes in one scrape and reports whether the engine has restarted
// since the one before. Signals without load change nothing but counters.
func (l *Ledger) observe(s Signals) (restarted bool) {
	if l.scraped {
		younger := l.signals.restartedBy(&s)
		restarted = younger && (l.restartedAt.IsZero() || s.At.Sub(l.restartedAt) > restartQuiet)
		switch {
		case restarted:
			l.restartedAt = s.At
			l.tokensPerSecond, l.speedKnown = 0, false
			l.others = others{}
			l.engineTTFT, l.engineTTFTAt = 0, time.Time{}
			l.progressAt = time.Time{}
			l.denial = denial{least: l.denial.least}
		case !younger:
			l.derive(&s)
		}
	}
	held := l.peak
	if l.since.After(l.pageAt) { // begun by a header, perhaps after the page was written
		held = held.or(l.past)
	}
	if s.Sleeping && !l.signals.Sleeping {
		l.asleepSince = s.At
	}
	l.denial.page(&s)
	l.otherWaiting(s.Waiting, held)
	l.otherRunning(s.Running, held)
	l.others.count(l.foreignWaiting+l.foreignRunning, float64(held.calls))
	l.signals, l.scraped, l.pageAt = s, true, s.At
	l.sent, l.held = 0, l.own.calls()
	l.nextWindow(s.At)
	return restarted
}

// derive computes what only the change of counters between two scrapes tells.
func (l *Ledger) derive(s *Signals) {
	old := &l.signals
	dt := s.At.Sub(l.pageAt).Seconds() // a header may have renewed old.At
	rose := func(a, b float64) bool { return a >= 0 && b > a }
	if rose(old.GenerationTokens, s.GenerationTokens) || rose(old.PromptTokens, s.PromptTokens) || rose(old.TTFTCount, s.TTFTCount) {
		l.progressAt = l.pageAt
	}
	if dt > 0 && s.GenerationTokens >= 0 && old.GenerationTokens >= 0 {
		l.tokensPerSecond, l.speedKnown = (s.GenerationTokens-old.GenerationTokens)/dt, true
		l.others.page(old.Running, s.Running, s.Waiting, l.tokensPerSecond, dt)
	}
	if old.PromptTokens >= 0 && s.PromptTokens > old.PromptTokens && old.CachedTokens >= 0 && s.CachedTokens >= old.CachedTokens {
		l.others.cached(s.PromptTokens-old.PromptTokens, s.CachedTokens-old.CachedTokens)
	}
	if n := s.TTFTCount - old.TTFTCount; old.TTFTCount >= 0 && n > 0 && s.TTFTSum >= old.TTFTSum {
		l.engineTTFT = time.Duration((s.TTFTSum - old.TTFTSum) / n * float64(time.Second))
		l.engineTTFTAt = s.At
	}
}

// restartedBy reports whether next was read from a younger process than s.
func (s *Signals) restartedBy(next *Signals) bool {
	if s.ProcessStart >= 0 && next.ProcessStart >= 0 && next.ProcessStart > s.ProcessStart+1 {
		return true
	}
	backwards := func(a, b float64) bool { return a >= 0 && b >= 0 && b < a }
	return backwards(s.PromptTokens, next.PromptTokens) ||
		backwards(s.GenerationTokens, next.GenerationTokens) ||
		backwards(s.TTFTCount, next.TTFTCount)
}

// Load is the merged account at one moment: what selection scores.
type Load struct {
	// PrefillTokens are the uncached prompt tokens that stand before a new
	// request, as effort: see Work. Our own are those booked, less what must have
	// been computed of them by now; others' are an estimate; and for a while there
	// are those of attempts that failed there.
	PrefillTokens float64

	// Waiting is how many requests stand in the engine's queue, Running how
	// many are in its batch, by the last scrape and what we did since.
	Waiting float64
	Running float64

	// Own is how many of our own calls are open there, and Context the tokens of
	// their prompts, which each step of the engine reads again.
	Own     int
	Context float64

	// Foreign is how many requests of others are counted in, after
	// freshness.
	Foreign float64

	// Phantom is the part of PrefillTokens that is not there: what attempts
	// that failed a moment ago left behind.
	Phantom float64

	// KVUsage is 0 to 1, or Unknown when blind or not told. KVCapacity is in
	// tokens, or Unknown.
	KVUsage    float64
	KVCapacity float64

	// Blind says that there are no numbers, or that they are older than
	// stale_after: only our own work is counted, so the endpoint looks better
	// than it may be. Its share must be capped at a fair one.
	Blind bool
}

// Failing reports whether attempts failed there a moment ago: not where to send
// what others must not have.
func (ld *Load) Failing() bool { return ld.Phantom > phantomFaint }

// Load merges the account at the given moment. interval is how often the
// endpoint is scraped, staleAfter the age at which numbers count for nothing, speed
// how many prompt tokens the endpoint computes a second.
func (l *Ledger) Load(now time.Time, interval, staleAfter time.Duration, speed float64) Load {
	fresh := l.freshness(now, interval, staleAfter)
	if l.denial.proved(now, interval) {
		fresh = 0 // what it does not count of ours it hides of others'
	}
	ld := Load{
		Own:        l.own.calls(),
		Context:    float64(l.own.context),
		KVUsage:    Unknown,
		KVCapacity: Unknown,
		Blind:      fresh <= 0,
	}
	foreignWaiting, foreignRunning := l.foreignWaiting*fresh, l.foreignRunning*fresh
	ld.Foreign = foreignWaiting + foreignRunning
	ld.Phantom = l.phantom.left(now)
	ld.PrefillTokens = float64(l.own.effort) + ld.Phantom
	// The first call in prefill is being worked on; those after it wait for it.
	ownWaiting := float64(max(0, l.own.prefillCalls-1))
	if !ld.Blind {
		ld.KVUsage, ld.KVCapacity = l.signals.KVUsage, l.signals.KVCapacity
		if l.signals.WaitingTokens >= 0 && foreignWaiting > 0 {
			ld.PrefillTokens += max(0, l.signals.WaitingTokens-float64(l.own.prefillTokens)) * fresh
		} else {
			ld.PrefillTokens += foreignWaiting * l.promptMean()
		}
		if foreignRunning > 0.5 {
			ld.PrefillTokens += fresh * l.others.left(speed, l.promptMean(), l.promptSquare())
		}
		// A call sent before the scrape that is not in the engine's queue is in
		// its batch, however long its prefill takes.
		ownWaiting = min(ownWaiting, max(0, l.signals.Waiting)+float64(l.sent))
	}
	ld.Waiting = foreignWaiting + ownWaiting
	ld.Running = foreignRunning + float64(l.own.calls()) - ownWaiting
	return ld
}

// othersPrefill estimates the prompt tokens of others that the endpoint has to
// compute, by a scrape of late.
func (l *Ledger) othersPrefill(now time.Time) float64 {
	if !l.scraped || now.Sub(l.signals.At) > DefaultStaleAfter {
		return 0
	}
	return l.foreignWaiting * l.promptMean()
}

// freshness is 1 up to two scrape intervals, then falls to 0 at staleAfter.
func (l *Ledger) freshness(now time.Time, interval, staleAfter time.Duration) float64 {
	if !l.scraped || !l.signals.HasLoad() {
		return 0
	}
	age := now.Sub(l.signals.At)
	switch full := 2 * interval; {
	case age >= staleAfter:
		return 0
	case age <= full:
		return 1
	default:
		return float64(staleAfter-age) / float64(staleAfter-full)
	}
}

// CachedShare tells how many prompt tokens the engine found in its cache, of how
// many, between scrapes of late.
func (l *Ledger) CachedShare() (hits, prompt float64) { return l.others.hits, l.others.prompt }

// OthersShare tells of how many requests at the endpoint others had, of how many,
// at scrapes of late.
func (l *Ledger) OthersShare() (foreign, all float64) { return l.others.seen, l.others.all }

// promptSquare is the mean square that goes with promptMean.
func (l *Ledger) promptSquare() float64 {
	if l.meanPrompt == 0 {
		return 2 * priorPrompt * priorPrompt
	}
	return l.squarePrompt
}

func (l *Ledger) promptMean() float64 {
	if l.meanPrompt == 0 {
		return priorPrompt
	}
	return l.meanPrompt
}

// Signals returns the last scrape that told anything, and false if there was
// none.
func (l *Ledger) Signals() (Signals, bool) { return l.signals, l.scraped }

// TokensInFlight returns our own outstanding work: uncached prompt tokens
// without a first token, and expected output tokens.
func (l *Ledger) TokensInFlight() (prefill, output int) {
	return l.own.prefillTokens, l.own.outputTokens
}

// OwnCalls returns how many of our own calls are open, by phase.
func (l *Ledger) OwnCalls() (prefill, decode int) { return l.own.prefillCalls, l.own.decodeCalls }

// Unseen returns how many of our own calls without a first token the last scrape
// cannot have counted.
func (l *Ledger) Unseen() int { return min(l.sent, l.own.prefillCalls) }

// Added returns how many more of our own calls are open than when the last scrape
// ended; below zero for fewer.
func (l *Ledger) Added() int { return l.own.calls() - l.held }

// TokensPerSecond returns the generation speed of the whole engine between the
// last two scrapes.
func (l *Ledger) TokensPerSecond() float64 { return l.tokensPerSecond }
