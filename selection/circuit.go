package selection

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Bounds of the circuit.
const (
	maxFailures = 1000
	minOpenFor  = 100 * time.Millisecond
	maxOpenFor  = time.Hour
)

// Circuit is when failures take a server out of use. What counts are answers
// that broke off, errors of the engine, and silence past the first-token
// deadline; neither 4xx nor overload, nor clients that leave. A server that
// cannot be connected to is taken out without it. With both Failures and Rate 0
// there is no circuit.
type Circuit struct {
	// Failures is how many requests in a row must have failed, up to 1000. 0 is
	// off. Default: 5.
	Failures *int `json:"failures,omitempty"`

	// Rate, up to 1, is the share of the latest requests that must have failed,
	// of 20 at least, old ones fading by half in 30 seconds. 0 is off.
	// Default: 0.5.
	Rate *float64 `json:"rate,omitempty"`

	// OpenFor is how long the server then gets nothing, before one request is
	// sent there as a trial: 100ms to 1h. It doubles with each trial that
	// fails, up to eight times. Default: 10s.
	OpenFor caddy.Duration `json:"open_for,omitempty"`
}

// settings fills in the defaults. Nil has them all.
func (c *Circuit) settings() llmlb.Circuit {
	s := llmlb.Circuit{
		Failures: llmlb.DefaultCircuitFailures, Rate: llmlb.DefaultCircuitRate, OpenFor: llmlb.DefaultCircuitOpenFor,
	}
	if c == nil {
		return s
	}
	if c.Failures != nil {
		s.Failures = *c.Failures
	}
	if c.Rate != nil {
		s.Rate = *c.Rate
	}
	if c.OpenFor != 0 {
		s.OpenFor = time.Duration(c.OpenFor)
	}
	return s
}

func (c *Circuit) check() error {
	if c == nil {
		return nil
	}
	if n := c.Failures; n != nil && (*n < 0 || *n > maxFailures) {
		return fmt.Errorf("circuit: failures %d is out of range; have 0 (off) to %d", *n, maxFailures)
	}
	if r := c.Rate; r != nil && !(*r >= 0 && *r <= 1) {
		return fmt.Errorf("circuit: rate %v is out of range; have 0 (off) to 1", *r)
	}
	if d := time.Duration(c.OpenFor); d != 0 && (d < minOpenFor || d > maxOpenFor) {
		return fmt.Errorf("circuit: open_for %v is out of range; have %v to %v", d, minOpenFor, maxOpenFor)
	}
	if s := c.settings(); c.OpenFor != 0 && s.Failures == 0 && s.Rate == 0 {
		return fmt.Errorf("circuit: open_for %v means nothing with failures and rate off", s.OpenFor)
	}
	return nil
}

// circuitOptions are the options of the block.
var circuitOptions = []string{"failures", "rate", "open_for"}

// readCircuit reads 'circuit off', or a block of thresholds.
func (p *Policy) readCircuit(d *caddyfile.Dispenser) error {
	p.Circuit = new(Circuit)
	if d.NextArg() {
		if d.Val() != "off" {
			return d.Errf("unknown circuit '%s'; have off, or a block of %s", d.Val(), strings.Join(circuitOptions, ", "))
		}
		p.Circuit.Failures, p.Circuit.Rate = new(0), new(0.0)
		return nil
	}
	given, err := readBlock(d, "circuit", p.Circuit.option)
	if err != nil {
		return err
	}
	if given == 0 {
		return d.Errf("option 'circuit' needs off, or a block of %s", strings.Join(circuitOptions, ", "))
	}
	if err := p.Circuit.check(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// option reads the option that the dispenser stands on.
func (c *Circuit) option(d *caddyfile.Dispenser) error {
	name := d.Val()
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	switch name {
	case "failures":
		n := 0
		if args[0] != "off" {
			if n, err = strconv.Atoi(args[0]); err != nil || n < 1 || n > maxFailures {
				return d.Errf("bad failures '%s' of 'circuit'; have 1 to %d, or off", args[0], maxFailures)
			}
		}
		c.Failures = &n
	case "rate":
		r := 0.0
		if args[0] != "off" {
			if r, err = readShare(args[0]); err != nil {
				return d.Errf("bad rate '%s' of 'circuit'; %v, or off", args[0], err)
			}
		}
		c.Rate = &r
	case "open_for":
		n, err := caddy.ParseDuration(args[0])
		if err != nil || n < minOpenFor || n > maxOpenFor {
			return d.Errf("bad open_for '%s' of 'circuit'; have %v to %v", args[0], minOpenFor, maxOpenFor)
		}
		c.OpenFor = caddy.Duration(n)
	default:
		return d.Errf("unknown option '%s' of 'circuit'; have %s", name, strings.Join(circuitOptions, ", "))
	}
	return nil
}

// readShare reads a share over 0 and up to 1, or the same as percent. The error
// says what there is to write.
func readShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if err == nil && !percent && share > 1 && share <= 100 {
		return 0, fmt.Errorf("write '%s%%' for percent, a number alone is a share up to 1", text)
	}
	if err != nil || math.IsNaN(share) || share <= 0 || share > 1 {
		return 0, fmt.Errorf("have over 0%% and up to 100%%")
	}
	return share, nil
}
