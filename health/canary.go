package health

import (
	"cmp"
	"context"
	"math/bits"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const (
	// canaryAgain is how soon after a canary that failed the next one is sent,
	// where the interval is longer.
	canaryAgain = 5 * time.Second

	// canaryRests is for how long none is sent to an endpoint that cannot be tried.
	canaryRests = 10 * time.Minute

	// canaryWaits is for how long it is waited until the engine is known. A server
	// that tells no load is tried all the same.
	canaryWaits = time.Minute

	// canaryLook is how often it is looked whether one may be sent that was due.
	canaryLook = time.Second
)

// canary tries an endpoint with a short completion from time to time.
type canary struct {
	*loop

	asked    bool            // a turn has come
	under    *llmlb.Settings // those of the last turn
	from     time.Time
	pause    pause           // until the next turn, counted from then
	failed   bool            // the last that told something did
	spoke    bool            // and had begun to generate, which counters show too
	plain    bool            // it takes completions alone, no chats
	nameless time.Time       // since when one is lacking but for a model to ask for
	warned   map[reason]bool // why it cannot be tried, as the log says
}

// pause is what the time until the next canary is counted by.
type pause uint8

const (
	whole   pause = iota // the interval: all is well
	hurried              // it failed
	held                 // none may be sent now
	resting              // it cannot be tried
)

// tempted returns the settings with what is not set.
func tempted(c llmlb.Canary) llmlb.Canary {
	c = c.Settled()
	c.MaxTokens = min(max(1, c.MaxTokens), llmlb.MaxCanaryTokens)
	c.Prompt = cmp.Or(c.Prompt, canaryPrompt)
	return c
}

// next implements job.
func (c *canary) next(now time.Time) time.Time {
	s := c.runner.pool.Current()
	if s == nil || !s.Checks.Canary.On() {
		return now.Add(time.Hour) // about to be ended
	}
	interval := s.Checks.Canary.Interval
	if !c.asked {
		// The first tells how fast it is, which others are held against.
		return c.begun.Add(time.Duration(bits.RotateLeft64(c.hash, 16) % uint64(min(interval, canaryAgain))))
	}
	switch c.pause {
	case hurried:
		interval = min(interval, canaryAgain)
	case held:
		interval = min(interval, canaryLook)
	case resting:
		if c.under != s {
			return now // the reload may have been made to mend it
		}
		interval = max(interval, canaryRests)
	case whole: // all of it
	}
	return c.from.Add(interval)
}

// turn implements job.
func (c *canary) turn(ctx context.Context) {
	s, now := c.runner.pool.Current(), time.Now()
	c.asked, c.under = true, s
	if !tried(s, c.endpoint) {
		return
	}
	options := tempted(s.Checks.Canary)
	idle, may := c.may(s, &options, now)
	c.warnNameless(s, now)
	if !may {
		return
	}
	c.from = now
	shown := c.try(ctx, s, &options)
	if ctx.Err() != nil {
		return // ended by us: says nothing about the server
	}
	now = time.Now()
	shown.note(c.endpoint, now, reason(shown.Reason))
	if c.pause = hurried; !shown.tells || shown.own && shown.undialed {
		return // that nobody can reach it is told already
	}
	switch shown.Verdict {
	case llmlb.CheckPassed:
		if !c.failed { // else one more is wanted soon, which may bring it back
			c.pause = whole
		}
	case llmlb.CheckUnsuitable:
		c.pause = resting
	default: // it is tried again soon
	}
	c.failed = shown.Verdict == llmlb.CheckFailed
	c.spoke = c.failed && shown.Own
	shown.Idle = idle
	c.endpoint.ObserveCanary(now, shown.CheckResult, options)
	c.log(&shown.CheckResult)
}

// may reports whether a canary may be sent now, and whether nothing else runs at
// the endpoint, as far as is known. Real traffic that succeeds is the best of
// canaries, but for a server that gets none of ours before one has passed; and none
// may wake a server, stand in the way where there is too much to do, or keep one
// from ending.
func (c *canary) may(s *llmlb.Settings, options *llmlb.Canary, now time.Time) (idle, may bool) {
	e, p := c.endpoint, c.runner.pool
	p.Lock()
	defer p.Unlock()
	sig, _ := e.Ledger().Signals() // zero before the first
	if options.Model == "" {
		options.Model = c.model(&sig, now)
	}
	state, _, _ := e.State(now)
	_, _, starting := e.Starting(s)
	switch {
	case e.Gone(now), e.Asleep(now, s),
		state == llmlb.Draining, state == llmlb.Drained, state == llmlb.Overload,
		starting && !c.bringsUp(s):
		c.from, c.pause, c.nameless = now, held, time.Time{}
		return false, false
	case options.Model == "":
		c.from, c.pause = now, held
		if c.nameless.IsZero() {
			c.nameless = now
		}
		if state == llmlb.Down || sig.Loads == llmlb.LoadsModels && !starting {
			c.nameless = time.Time{} // told already, or one comes with traffic
		}
		return false, false
	}
	c.nameless = time.Time{}
	// After one that failed and had begun to generate, what the server has generated
	// may be nothing but that.
	if at := e.Generated(); !starting && !c.spoke && !e.CheckedOut(s) && now.Sub(at) < options.Interval {
		c.from, c.pause = at, whole
		return false, false
	}
	prefill, decode := e.Ledger().OwnCalls()
	return prefill+decode == 0 && max(sig.Running, sig.Waiting) <= 0, true
}

// model is what a canary asks for where the operator names none: the first that
// the endpoint lists. Where naming one has it loaded, it is one that is loaded; so
// it is waited for what the engine is.
func (c *canary) model(sig *llmlb.Signals, now time.Time) string {
	if sig.Engine == "" && now.Sub(c.begun) < canaryWaits {
		return ""
	}
	if sig.Loads == llmlb.LoadsModels {
		if len(sig.Resident) > 0 {
			return sig.Resident[0]
		}
		return ""
	}
	if m := c.upkeep.model.Load(); m != nil {
		return *m
	}
	return ""
}

// bringsUp reports whether a canary that passes is all that a starting endpoint
// lacks: nobody asks it whether it is ready.
func (c *canary) bringsUp(s *llmlb.Settings) bool {
	return s.Checks.MustPass && (!asked(s, c.endpoint) || c.upkeep.unready.Load())
}

// try sends a canary as a chat or, where there are no chats, as a completion.
func (c *canary) try(ctx context.Context, s *llmlb.Settings, options *llmlb.Canary) *shown {
	first := sendCanary(ctx, s, c.endpoint.Address(), options, c.plain)
	if !first.elsewhere || ctx.Err() != nil {
		return first
	}
	second := sendCanary(ctx, s, c.endpoint.Address(), options, !c.plain)
	if !second.tells || second.Verdict == llmlb.CheckUnsuitable {
		return first
	}
	c.plain = !c.plain
	return second
}

// log warns the operator once of each reason why the endpoint cannot be tried, and
// tells at the debug level what else did not pass. That an endpoint is out is told
// as a change of its state.
func (c *canary) log(result *llmlb.CheckResult) {
	why := reason(result.Reason)
	fields := append(endpointFields(c.endpoint), zap.Stringer("verdict", result.Verdict), zap.String("reason", string(why)))
	switch {
	case why == "":
	case result.Verdict != llmlb.CheckUnsuitable:
		c.runner.log().Debug("canary not passed", fields...)
	case c.warn(why):
		c.runner.log().Warn("canary unsuitable", fields...)
	}
}

// warnNameless warns the operator once that no canary is sent for want of a model.
func (c *canary) warnNameless(s *llmlb.Settings, now time.Time) {
	const why reason = "no model to ask for: the server has told none"
	if c.nameless.IsZero() || now.Sub(c.nameless) < canaryWaits || !c.warn(why) {
		return
	}
	to := "name a model for canary, or see that the server answers " + modelsPath
	if s.Checks.MustPass {
		to += "; with initial must_pass it may get nothing until then"
	}
	c.runner.log().Warn("canary not sent", append(endpointFields(c.endpoint), zap.String("reason", string(why)), zap.String("to_do", to))...)
}

// warn reports whether a reason is new to the log.
func (c *canary) warn(why reason) bool {
	if c.warned[why] || len(c.warned) >= maxReasons {
		return false
	}
	if c.warned == nil {
		c.warned = make(map[reason]bool)
	}
	c.warned[why] = true
	return true
}
