package admission

import (
	"context"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// account is what is due at the end of a request.
type account struct {
	handler *Handler
	call    *llmlb.Call
	request *http.Request
	begun   time.Time
	settled bool
}

// settle ends the Call: the transport has ended the attempts it saw, but there
// may be none of ours, or its end may not have been seen. Only the first time
// counts.
func (a *account) settle(rec *recorder, returned bool, err error) {
	if a.settled {
		return
	}
	a.settled = true
	c, now := a.call, time.Now()
	c.EndAttempt(now, a.outcome(rec, returned, err))
	if c.Outcome == llmlb.OutcomeNone {
		c.Outcome = a.outcome(rec, returned, err)
	}
	if c.Outcome == llmlb.Served && c.Generates() && !c.Stream && a.status(rec) == http.StatusOK {
		c.SawWhole(now)
	}
	a.publish()
}

func (a *account) status(rec *recorder) int {
	if a.call.Status != 0 {
		return a.call.Status
	}
	return rec.status
}

// outcome tells how a request ended that nobody closer has told of.
func (a *account) outcome(rec *recorder, returned bool, err error) llmlb.Outcome {
	status := a.status(rec)
	switch {
	case a.request.Context().Err() != nil, status == statusClientGone:
		return llmlb.ClientGone
	case !returned && rec.status != 0:
		return llmlb.Truncated
	case !returned:
		return llmlb.EngineError
	case err != nil && a.call.Lease == nil:
		return llmlb.Refused // nothing was left to try
	case err != nil:
		return llmlb.Unreachable
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return llmlb.Overloaded
	case status >= http.StatusInternalServerError:
		return llmlb.EngineError
	}
	return llmlb.Served
}

// publish tells placeholders and the access log what is known of the Call. The
// transport sets those of the attempt, which it alone knows.
func (a *account) publish() {
	ctx, c := a.request.Context(), a.call
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	repl.Set("llm.pool", a.handler.handle.Name())
	repl.Set("llm.model", c.Model)
	repl.Set("llm.error", c.Refusal)
	if c.Lease != nil {
		repl.Set("llm.endpoint", c.Lease.Endpoint().Name())
		repl.Set("llm.decision", c.Decision.Reason.String())
		repl.Set("llm.matched_tokens", c.Decision.Matched)
	}
	repl.Set("llm.attempts", c.Attempts)
	if !c.FirstToken.IsZero() {
		repl.Set("llm.ttft_ms", millis(c.FirstToken.Sub(a.begun)))
	}
	if c.Outcome != llmlb.OutcomeNone {
		repl.Set("llm.outcome", c.Outcome.String())
		a.log(ctx, repl)
	}
}

// log adds the access log's fields, once it is known how the request ended.
// Caddy's own duration and status are wrong for streams that break off.
func (a *account) log(ctx context.Context, repl *caddy.Replacer) {
	fields, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	if !ok {
		return
	}
	c := a.call
	fields.Set(zap.String("llm_pool", a.handler.handle.Name()))
	fields.Set(zap.String("llm_outcome", c.Outcome.String()))
	fields.Set(zap.Duration("llm_duration", time.Since(a.begun)))
	if c.Refusal != "" {
		fields.Set(zap.String("llm_error", c.Refusal))
	}
	if c.Model != "" {
		fields.Set(zap.String("llm_model", c.Model))
	}
	if c.Attempts > 0 {
		fields.Set(zap.Int("llm_attempts", c.Attempts))
		for _, name := range []string{"endpoint", "decision", "matched_tokens"} {
			if v, ok := repl.Get("llm." + name); ok {
				fields.Set(zap.Any("llm_"+name, v))
			}
		}
	}
	if !c.FirstToken.IsZero() {
		fields.Set(zap.Float64("llm_ttft_ms", millis(c.FirstToken.Sub(a.begun))))
	}
	for _, f := range []struct {
		name string
		n    int
	}{
		{"llm_prompt_tokens", c.PromptTokens},
		{"llm_cached_tokens", c.CachedTokens},
		{"llm_output_tokens", c.OutputTokens},
	} {
		if f.n >= 0 {
			fields.Set(zap.Int(f.name, f.n))
		}
	}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
