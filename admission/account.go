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

// refused notes that the Call is answered here, and why. How its last attempt
// ended stays known, if there was one.
func (x *exchange) refused(f *refusal) {
	c := x.call
	c.Refusal = f.code
	x.unfit = f.status < http.StatusInternalServerError && f.status != http.StatusTooManyRequests && f.status != statusClientGone
	switch {
	case f.status == statusClientGone:
		c.Outcome = llmlb.ClientGone
	case c.Attempts == 0:
		c.Outcome = llmlb.Refused
	}
}

// settle ends the Call: the transport has ended the attempts it saw, but there
// may be none of ours, or its end may not have been seen. Only the first time
// counts.
func (x *exchange) settle(returned bool, err error) {
	if x.settled {
		return
	}
	x.settled = true
	c, now := x.call, time.Now()
	c.EndAttempt(now, x.outcome(returned, err))
	if c.Outcome == llmlb.OutcomeNone {
		c.Outcome = x.outcome(returned, err)
	}
	if c.Outcome == llmlb.Served && c.Generates() && !c.Stream && x.status() == http.StatusOK {
		c.SawWhole(now)
	}
}

func (x *exchange) status() int {
	if x.call.Status != 0 {
		return x.call.Status
	}
	return x.rec.status
}

// outcome tells how a request ended that nobody closer has told of.
func (x *exchange) outcome(returned bool, err error) llmlb.Outcome {
	c, status := x.call, x.status()
	switch {
	case x.gone(), status == statusClientGone:
		return llmlb.ClientGone
	case !returned && x.rec.status != 0:
		return llmlb.Truncated
	case !returned:
		return llmlb.EngineError
	case err != nil && (c.Lease == nil || c.Attempts == 0):
		return llmlb.Refused // nothing was left to try, or nothing was tried
	case err != nil:
		return llmlb.Unreachable
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return llmlb.Overloaded
	case status >= http.StatusInternalServerError:
		return llmlb.EngineError
	}
	return llmlb.Served
}

// offered reports whether the request asked for what could be had: one with a
// mistake in it says nothing of how well others are served.
func (x *exchange) offered() bool {
	return x.grants && !x.unfit && (x.call.Outcome != llmlb.Served || x.status() < http.StatusBadRequest)
}

// aborted tells who broke off an answer that had begun, "" if nobody did.
func (x *exchange) aborted(returned bool) string {
	began := x.rec.status != 0 && x.rec.status != statusClientGone || x.beat.begun()
	switch o := x.call.Outcome; {
	case !began:
		return ""
	case o == llmlb.ClientGone && (!returned || x.gone()), o == llmlb.Served && !returned:
		return "client" // after Served the last bytes may still not have reached it
	case !returned, o == llmlb.Truncated:
		return "upstream"
	}
	return ""
}

// log adds the access log's fields, once it is known how the request ended.
// Caddy's own duration and status are wrong for streams that break off.
func (x *exchange) log(returned bool) {
	ctx, c := x.request.Context(), x.call
	if s, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && s.Logs == nil {
		return // nobody writes an access log
	}
	fields, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	if !ok {
		return
	}
	fields.Set(zap.String("llm_pool", x.handler.handle.Name()))
	fields.Set(zap.String("llm_outcome", c.Outcome.String()))
	fields.Set(zap.Duration("llm_duration", time.Since(c.Arrival)))
	if c.Refusal != "" {
		fields.Set(zap.String("llm_error", c.Refusal))
	}
	if by := x.aborted(returned); by != "" {
		fields.Set(zap.String("llm_aborted", by))
	}
	if status := x.rec.status; x.beat.begun() && status != 0 && status != http.StatusOK {
		fields.Set(zap.Int("llm_status", status)) // Caddy's own says 200
	}
	if c.Waited > 0 {
		fields.Set(zap.Float64("llm_queue_wait_ms", millis(c.Waited)))
	}
	if c.Model != "" {
		fields.Set(zap.String("llm_model", c.Model))
	}
	if c.Class != "" && len(x.handler.Classes) > 0 {
		fields.Set(zap.String("llm_class", c.Class))
	}
	if c.Tenant != "" {
		fields.Set(zap.String("llm_tenant", x.handler.shown(c.Tenant)))
	}
	if c.Attempts > 0 {
		logAttempt(ctx, fields, c.Attempts)
	}
	if !c.FirstToken.IsZero() {
		fields.Set(zap.Float64("llm_ttft_ms", millis(c.FirstToken.Sub(c.Arrival))))
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

// logAttempt adds what placeholders tell of the last attempt.
func logAttempt(ctx context.Context, fields *caddyhttp.ExtraLogFields, attempts int) {
	fields.Set(zap.Int("llm_attempts", attempts))
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	for _, name := range []string{"endpoint", "decision", "matched_tokens"} {
		if v, ok := repl.Get(placeholders + name); ok {
			fields.Set(zap.Any("llm_"+name, v))
		}
	}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
