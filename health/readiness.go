package health

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/bits"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const (
	// anyReadiness is asked for while the engine is not known. Most have it.
	anyReadiness = "/health"

	// eagerly is how often an endpoint is asked, at least, that is not ready yet.
	eagerly = time.Second

	// seldom is how often one is asked that has shown that it cannot be.
	seldom = time.Minute

	// maxReadiness bounds what is read of an answer: a few words.
	maxReadiness = 4 << 10
)

// readiness asks an endpoint again and again whether it is ready.
type readiness struct {
	*loop

	memo  memo
	began time.Time // when the last check did, zero before the first
	under *llmlb.Settings
	where string // what was asked then
	eager bool   // somebody waited for it to be ready then
	mute  reason // why it cannot be asked, as far as is known
	said  reason // the last of these that was logged
	open  reason // why the last check did not pass, as far as the log knows
}

// next implements job. Turns are counted from the beginning of the last check: one
// that hangs as long as the interval delays none.
func (r *readiness) next(now time.Time) time.Time {
	s := r.runner.pool.Current()
	if s == nil {
		return now.Add(time.Hour) // about to be ended
	}
	interval := s.Checks.Readiness.Settled().Interval
	hash := bits.RotateLeft64(r.hash, 32) // not at the moment of its scrape
	switch {
	case r.began.IsZero() && s.Checks.MustPass:
		return now
	case r.began.IsZero():
		return r.first(hash, interval)
	case r.where != r.at(s):
		return now
	case r.mute != "" && r.under != s:
		return now // the reload may have been made to mend it
	case r.mute != "":
		return nextTick(r.runner.epoch, hash, max(interval, seldom), r.began)
	case r.starting(s):
		if !r.eager {
			return now
		}
		return r.began.Add(min(interval, eagerly))
	}
	return nextTick(r.runner.epoch, hash, interval, r.began)
}

// starting reports whether somebody waits for the endpoint to be ready.
func (r *readiness) starting(s *llmlb.Settings) bool {
	r.runner.pool.Lock()
	defer r.runner.pool.Unlock()
	_, _, is := r.endpoint.Starting(s)
	return is
}

// at returns what is asked: what the operator says, or the engine's own path.
func (r *readiness) at(s *llmlb.Settings) string {
	path, _ := r.own(s)
	return cmp.Or(s.Checks.Readiness.Path, path)
}

// own is the path of the engine that the settings name, or whose load was read
// last, and the status by which it says that it is not ready.
func (r *readiness) own(s *llmlb.Settings) (path string, notReady int) {
	name := s.Scrape.Engine
	if dialectsNamed(name) == nil {
		r.runner.pool.Lock()
		sig, _ := r.endpoint.Ledger().Signals()
		r.runner.pool.Unlock()
		name = sig.Engine
	}
	for _, d := range dialects {
		if d.Name == name && d.Readiness != "" {
			return d.Readiness, d.NotReady
		}
	}
	return anyReadiness, 0
}

// turn implements job.
func (r *readiness) turn(ctx context.Context) {
	r.began = time.Now()
	s := r.runner.pool.Current()
	r.under = s
	if !asked(s, r.endpoint) {
		return
	}
	options := s.Checks.Readiness.Settled()
	r.where, r.eager = r.at(s), r.starting(s)
	path, notReady := r.own(s)
	q := query{at: options.Path, path: path, accept: "*/*", memo: &r.memo}
	result, c, tells := askReady(ctx, s, r.endpoint.Address(), &q, notReady, &options)
	if ctx.Err() != nil {
		return // ended by us: says nothing about the server
	}
	now := time.Now()
	c.note(r.endpoint, now, reason(result.Reason))
	if !tells && !r.eager {
		return
	}
	if !tells {
		// Too much to do is more than what is waited for: to be there.
		result = llmlb.CheckResult{Began: result.Began, Verdict: llmlb.CheckPassed}
	}
	r.mute = ""
	if result.Verdict == llmlb.CheckUnsuitable {
		r.mute = reason(result.Reason)
	}
	r.upkeep.unready.Store(r.mute != "")
	r.endpoint.ObserveReadiness(now, result, options)
	r.log(s, &result)
}

// askReady makes one check, and reports whether it tells anything.
func askReady(ctx context.Context, s *llmlb.Settings, address string, q *query, notReady int, options *llmlb.Readiness) (result llmlb.CheckResult, c contact, tells bool) {
	ctx, cancel := context.WithTimeout(ctx, options.Timeout)
	defer cancel()
	result.Began = time.Now()
	res, why := c.send(ctx, s, address, q, options.Timeout) //nolint:bodyclose // readLittle closes it
	if why == "" {
		var body []byte
		body, why = readLittle(ctx, res, options.Timeout)
		if why == "" {
			result.Verdict, why, tells = readyVerdict(res.StatusCode, body, notReady, options.Path != "")
			result.Reason = string(c.unkeyed(res.StatusCode, why))
			return result, c, tells
		}
	}
	result.Verdict, result.Reason = llmlb.CheckFailed, string(why)
	if !c.tried || c.conclusive && options.Path == "" {
		result.Verdict = llmlb.CheckUnsuitable // our own doing, or it redirects elsewhere
	}
	result.Slow = errors.Is(ctx.Err(), context.DeadlineExceeded)
	return result, c, true
}

// readLittle reads the beginning of a body, and ends it.
func readLittle(ctx context.Context, res *http.Response, limit time.Duration) ([]byte, reason) {
	defer discard(res.Body)
	if res.ContentLength == 0 {
		return nil, ""
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReadiness))
	if err != nil {
		return nil, errorReason(cmp.Or(ctx.Err(), err), limit)
	}
	return body, ""
}

// log tells the operator once that a server cannot be asked, and at the debug
// level what checks say. That an endpoint is out is told as a change of its state.
func (r *readiness) log(s *llmlb.Settings, result *llmlb.CheckResult) {
	why := reason(result.Reason)
	if r.mute != "" && r.mute != r.said {
		r.said = r.mute
		level, fields := zap.InfoLevel, append(endpointFields(r.endpoint), zap.String("reason", string(why)))
		if s.Checks.MustPass && !s.Checks.Canary.On() {
			level = zap.WarnLevel // it gets nothing until it has passed one
			fields = append(fields, zap.String("to_do", "set a path for readiness that the server has, or initial usable"))
		}
		r.runner.log().Log(level, "readiness cannot be asked", fields...)
	}
	if why != r.open && why != "" {
		r.runner.log().Debug("readiness check not passed",
			append(endpointFields(r.endpoint), zap.Stringer("verdict", result.Verdict), zap.String("reason", string(why)))...)
	}
	r.open = why
}
