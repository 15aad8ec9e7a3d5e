package health

import (
	"context"
	"sync/atomic"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// upkeep is all the background work at one endpoint, and what its jobs tell one
// another.
type upkeep struct {
	runner   *runner
	endpoint *llmlb.Endpoint
	loops    [jobKinds]*loop // nil where there is none

	model   atomic.Pointer[string] // the first that the endpoint lists
	unready atomic.Bool            // it cannot be asked whether it is ready
}

// want returns which jobs are to be done at the endpoint under the settings.
func want(s *llmlb.Settings, e *llmlb.Endpoint) (jobs [jobKinds]bool) {
	jobs[scraping] = scraped(s, e)
	jobs[readying] = asked(s, e)
	jobs[trying] = tried(s, e)
	return jobs
}

// kept reports whether the endpoint is looked after under the settings. One that
// left the configuration and only finishes its streams is not: the new
// configuration's credentials were not meant for it.
func kept(s *llmlb.Settings, e *llmlb.Endpoint) bool {
	return s != nil && s.Upstream != nil && (s.Dynamic || s.Member(e.Address()) != nil)
}

// scraped reports whether the endpoint is to be scraped.
func scraped(s *llmlb.Settings, e *llmlb.Endpoint) bool { return kept(s, e) && s.Scrape.Engine != none }

// asked reports whether the endpoint is to be asked if it is ready.
func asked(s *llmlb.Settings, e *llmlb.Endpoint) bool {
	return kept(s, e) && !s.Checks.Readiness.Off && (s.Scrape.Engine != none || s.Checks.Readiness.Path != "")
}

// tried reports whether canaries are to be sent to the endpoint.
func tried(s *llmlb.Settings, e *llmlb.Endpoint) bool { return kept(s, e) && s.Checks.Canary.On() }

// end ends the jobs that are not wanted, and waits for them.
func (u *upkeep) end(wanted [jobKinds]bool) {
	var ending [jobKinds]*loop
	u.runner.keeping.Lock()
	for k, l := range u.loops {
		if l != nil && !wanted[k] {
			l.cancel()
			ending[k], u.loops[k] = l, nil
		}
	}
	u.runner.keeping.Unlock()
	for _, l := range ending {
		if l != nil {
			l.stop()
		}
	}
}

// begin starts the jobs that are wanted and missing, and tells the others that the
// settings may have changed. Under keeping.
func (u *upkeep) begin(ctx context.Context, wanted [jobKinds]bool) {
	for k := range jobKinds {
		switch l := u.loops[k]; {
		case !wanted[k]:
		case l != nil:
			l.nudge()
		default:
			u.loops[k] = k.start(ctx, u)
		}
	}
}

// listed notes the endpoint's list of models.
func (u *upkeep) listed(list []llmlb.Model) {
	for i := range list {
		if m := &list[i]; m.Parent == "" || m.Parent == m.ID { // no adapter
			u.model.Store(&m.ID)
			return
		}
	}
	u.model.Store(nil)
}
