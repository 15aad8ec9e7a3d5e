package selection

import (
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Bounds of the checks.
const (
	maxCheckTimeout = 10 * time.Minute
	maxInRow        = 100 // fails and passes
)

// Readiness is how a server is asked whether it is ready: with GET, over the
// upstream's own TLS and with the token of UpstreamAuth. One that does not answer
// in time, or wrongly, several times in a row is taken out; one that generates
// something meanwhile is not.
type Readiness struct {
	// Off asks nothing. Default: false.
	Off bool `json:"off,omitempty"`

	// Path is where it is asked: "/path" on the upstream's address, ":port/path"
	// on its host, or a URL in which {host} stands for it. Default: the engine's
	// own path; an engine that has none is not asked.
	Path string `json:"path,omitempty"`

	// Interval is how often it is asked: 10ms to 1h. Default: 5s.
	Interval caddy.Duration `json:"interval,omitempty"`

	// Timeout is how long the whole exchange may take: 10ms to 10m. It may be
	// longer than Interval: the next check begins when this one has ended.
	// Default: 5s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// Fails is how many checks in a row must have failed, up to 100. Default: 3.
	Fails int `json:"fails,omitempty"`

	// Passes is how many in a row bring it back, up to 100. Default: 2.
	Passes int `json:"passes,omitempty"`
}

// settings fills in the defaults. Nil has them all.
func (r *Readiness) settings() llmlb.Readiness {
	if r == nil {
		r = new(Readiness)
	}
	return llmlb.Readiness{
		Off: r.Off, Path: r.Path,
		Interval: time.Duration(r.Interval), Timeout: time.Duration(r.Timeout),
		Fails: r.Fails, Passes: r.Passes,
	}.Settled()
}

func (r *Readiness) check() error {
	if r == nil {
		return nil
	}
	if r.Off && *r != (Readiness{Off: true}) {
		return fmt.Errorf("readiness is off, and has options, which contradict it; leave one of them out")
	}
	if r.Path != "" {
		if err := checkAddress("readiness", r.Path); err != nil {
			return err
		}
	}
	if d := time.Duration(r.Interval); d != 0 && (d < minInterval || d > maxInterval) {
		return fmt.Errorf("readiness: interval %v is out of range; have %v to %v", d, minInterval, maxInterval)
	}
	if d := time.Duration(r.Timeout); d != 0 && (d < minInterval || d > maxCheckTimeout) {
		return fmt.Errorf("readiness: timeout %v is out of range; have %v to %v", d, minInterval, maxCheckTimeout)
	}
	if n := r.Fails; n < 0 || n > maxInRow {
		return fmt.Errorf("readiness: fails %d is out of range; have 1 to %d", n, maxInRow)
	}
	if n := r.Passes; n < 0 || n > maxInRow {
		return fmt.Errorf("readiness: passes %d is out of range; have 1 to %d", n, maxInRow)
	}
	return nil
}

// readinessOptions are the options of the block.
var readinessOptions = []string{"interval", "timeout", "fails", "passes"}

// readReadiness reads 'readiness off', or an address, a block, or both.
func (p *Policy) readReadiness(d *caddyfile.Dispenser) error {
	args, err := arguments(d, 0, 1)
	if err != nil {
		return err
	}
	r := new(Readiness)
	p.Readiness = r
	if len(args) > 0 {
		switch r.Path = theirHost.Replace(args[0]); r.Path {
		case "":
			return d.Err("option 'readiness' needs a path that is not empty, off, or a block")
		case "off":
			r.Off, r.Path = true, ""
		}
	}
	given, err := readBlock(d, "readiness", r.option)
	if err != nil {
		return err
	}
	if r.Off && given > 0 {
		return d.Err("'readiness off' takes no block: nothing is asked")
	}
	if len(args) == 0 && given == 0 {
		return d.Errf("option 'readiness' needs off, a path, or a block of %s", strings.Join(readinessOptions, ", "))
	}
	if err := r.check(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// option reads the option that the dispenser stands on.
func (r *Readiness) option(d *caddyfile.Dispenser) error {
	switch name := d.Val(); name {
	case "interval":
		return readDuration(d, &r.Interval)
	case "timeout":
		return readDuration(d, &r.Timeout)
	case "fails":
		return readCount(d, &r.Fails, maxInRow)
	case "passes":
		return readCount(d, &r.Passes, maxInRow)
	default:
		return d.Errf("unknown option '%s' of 'readiness'; have %s", name, strings.Join(readinessOptions, ", "))
	}
}
