package selection

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Bounds of what is said of servers that come, and of the time they may take.
const (
	maxWarmUp = time.Hour
	maxSLO    = time.Hour
)

// The values of the options initial and all_down; the first of each is the
// default.
var (
	initials = []string{"usable", "must_pass"}
	allDowns = []string{"serve", "refuse"}
)

// SLO is what a request has to keep to count as served well. It changes nothing in
// how requests are served; metrics count by it.
type SLO struct {
	// TTFT is the longest time from a request's arrival to its first token, up to
	// 1h. Default: not judged.
	TTFT caddy.Duration `json:"ttft,omitempty"`

	// TPOT is the longest mean time between the tokens behind the first, up to 1h.
	// Default: not judged.
	TPOT caddy.Duration `json:"tpot,omitempty"`
}

// settings are none where nothing is said.
func (o *SLO) settings() llmlb.SLO {
	if o == nil {
		return llmlb.SLO{}
	}
	return llmlb.SLO{TTFT: time.Duration(o.TTFT), TPOT: time.Duration(o.TPOT)}
}

func (o *SLO) check() error {
	if o == nil {
		return nil
	}
	if d := time.Duration(o.TTFT); d < 0 || d > maxSLO {
		return fmt.Errorf("slo: ttft %v is out of range; have over 0 and up to %v", d, maxSLO)
	}
	if d := time.Duration(o.TPOT); d < 0 || d > maxSLO {
		return fmt.Errorf("slo: tpot %v is out of range; have over 0 and up to %v", d, maxSLO)
	}
	return nil
}

// checks are the settings of what the policy says about how it is seen that
// servers serve.
func (p *Policy) checks() llmlb.Checks {
	c := llmlb.Checks{
		Readiness: p.Readiness.settings(),
		Canary:    p.Canary.settings(),
		WarmUp:    llmlb.DefaultWarmUp,
		MustPass:  p.Initial == "must_pass",
		Refuse:    p.AllDown == "refuse",
	}
	if p.WarmUp != nil {
		c.WarmUp = time.Duration(*p.WarmUp)
	}
	return c
}

// checkChecks refuses what cannot be checked, and rules about checks where there
// are none.
func (p *Policy) checkChecks() error {
	if err := p.Readiness.check(); err != nil {
		return err
	}
	if err := p.Canary.check(); err != nil {
		return err
	}
	if err := p.SLO.check(); err != nil {
		return err
	}
	if p.WarmUp != nil {
		if d := time.Duration(*p.WarmUp); d < 0 || d > maxWarmUp {
			return fmt.Errorf("warm_up %v is out of range; have 0 (off) to %v", d, maxWarmUp)
		}
	}
	if p.Initial != "" && !slices.Contains(initials, p.Initial) {
		return fmt.Errorf("initial %q is not known; have %s", p.Initial, strings.Join(initials, ", "))
	}
	if p.AllDown != "" && !slices.Contains(allDowns, p.AllDown) {
		return fmt.Errorf("all_down %q is not known; have %s", p.AllDown, strings.Join(allDowns, ", "))
	}
	c := p.checks()
	if c.Canary.On() && p.Engine == "none" && c.Canary.Model == "" {
		return errors.New("canary needs a model with engine none: the servers are not asked which they have")
	}
	none := "readiness off"
	switch {
	case c.Canary.On():
		return nil
	case c.Readiness.Off:
	case p.Engine == "none" && c.Readiness.Path == "":
		none = "engine none, a readiness without a path"
	default:
		return nil
	}
	switch {
	case c.MustPass:
		return fmt.Errorf("initial must_pass contradicts %s and no canary: there is no check that a server could pass", none)
	case c.Refuse:
		return fmt.Errorf("all_down refuse means nothing with %s and no canary: there is no check that could take a server out", none)
	}
	return nil
}

func (p *Policy) readWarmUp(d *caddyfile.Dispenser) error {
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	var t caddy.Duration
	if args[0] != "off" {
		n, err := caddy.ParseDuration(args[0])
		if err != nil || n <= 0 || n > maxWarmUp {
			return d.Errf("bad warm_up '%s'; have a duration such as 30s, up to 1h, or off", args[0])
		}
		t = caddy.Duration(n)
	}
	p.WarmUp = &t
	return nil
}

// readSLO reads one limit or both, each behind its name.
func (p *Policy) readSLO(d *caddyfile.Dispenser) error {
	args, err := arguments(d, 1, 4)
	if err != nil {
		return err
	}
	p.SLO = new(SLO)
	for ; len(args) > 0; args = args[2:] {
		to := &p.SLO.TTFT
		switch args[0] {
		case "ttft":
		case "tpot":
			to = &p.SLO.TPOT
		default:
			return d.Errf("unknown limit '%s' of 'slo'; have ttft <duration>, tpot <duration>", args[0])
		}
		if len(args) < 2 {
			return d.Errf("%s of 'slo' needs a duration such as 500ms", args[0])
		}
		if *to != 0 {
			return d.Errf("%s of 'slo' is given twice", args[0])
		}
		n, err := caddy.ParseDuration(args[1])
		if err != nil || n <= 0 || n > maxSLO {
			return d.Errf("bad %s '%s' of 'slo'; have a duration such as 500ms", args[0], args[1])
		}
		*to = caddy.Duration(n)
	}
	return nil
}
