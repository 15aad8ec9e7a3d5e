package selection

import (
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Bounds of a canary.
const (
	maxCanaryPrompt = 4 << 10
	maxCanaryWord   = 256 // of what is expected, and of the model
)

// Canary is a short completion that is asked of a server which nobody else has had
// an answer from for a while. It shows what a health path does not: whether the
// server still generates.
type Canary struct {
	// Interval is how long after the last success of any request a server is
	// tried: 10ms to 1h. 0 is off.
	Interval caddy.Duration `json:"interval,omitempty"`

	// Prompt is what it is asked, up to 4 KiB. Something that differs each time is
	// put in front, so that no cache can answer it. Default: one of the module's
	// own.
	Prompt string `json:"prompt,omitempty"`

	// Expect is what the answer must contain, as it is written here. Default:
	// nothing, any token will do.
	Expect string `json:"expect,omitempty"`

	// Model is the model that is asked for. Default: the first that the server
	// lists.
	Model string `json:"model,omitempty"`

	// MaxTokens is how long the answer may be: 1 to 16. Default: 1.
	MaxTokens int `json:"max_tokens,omitempty"`

	// Timeout is how long it may take from dial to last byte: 10ms to 10m.
	// Default: 10s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// Fails is how many in a row take the server out, up to 100. Default: 3.
	Fails int `json:"fails,omitempty"`
}

// settings fills in the defaults. Nil sends none.
func (c *Canary) settings() llmlb.Canary {
	if c == nil || c.Interval == 0 {
		return llmlb.Canary{}
	}
	return llmlb.Canary{
		Interval: time.Duration(c.Interval), Timeout: time.Duration(c.Timeout),
		Prompt: c.Prompt, Expect: c.Expect, Model: c.Model,
		MaxTokens: c.MaxTokens, Fails: c.Fails,
	}.Settled()
}

func (c *Canary) check() error {
	if c == nil {
		return nil
	}
	if c.Interval == 0 && *c != (Canary{}) {
		return fmt.Errorf("canary has options and no interval, which says that none is sent; set one of %v to %v", minInterval, maxInterval)
	}
	if d := time.Duration(c.Interval); d != 0 && (d < minInterval || d > maxInterval) {
		return fmt.Errorf("canary: interval %v is out of range; have %v to %v", d, minInterval, maxInterval)
	}
	if d := time.Duration(c.Timeout); d != 0 && (d < minInterval || d > maxCheckTimeout) {
		return fmt.Errorf("canary: timeout %v is out of range; have %v to %v", d, minInterval, maxCheckTimeout)
	}
	if n := len(c.Prompt); n > maxCanaryPrompt {
		return fmt.Errorf("canary: prompt of %d bytes is too long; have up to %d", n, maxCanaryPrompt)
	}
	for _, s := range []struct{ name, value string }{{"expect", c.Expect}, {"model", c.Model}} {
		if n := len(s.value); n > maxCanaryWord {
			return fmt.Errorf("canary: %s of %d bytes is too long; have up to %d", s.name, n, maxCanaryWord)
		}
	}
	if n := c.MaxTokens; n < 0 || n > llmlb.MaxCanaryTokens {
		return fmt.Errorf("canary: max_tokens %d is out of range; have 1 to %d", n, llmlb.MaxCanaryTokens)
	}
	if n := c.Fails; n < 0 || n > maxInRow {
		return fmt.Errorf("canary: fails %d is out of range; have 1 to %d", n, maxInRow)
	}
	return nil
}

// canaryOptions are the options of the block.
var canaryOptions = []string{"prompt", "expect", "model", "max_tokens", "timeout", "fails"}

// readCanary reads 'canary off', or an interval and a block that may follow it.
func (p *Policy) readCanary(d *caddyfile.Dispenser) error {
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	c := new(Canary)
	if args[0] != "off" {
		n, err := caddy.ParseDuration(args[0])
		if err != nil || n < minInterval || n > maxInterval {
			return d.Errf("bad canary '%s'; have %v to %v, or off", args[0], minInterval, maxInterval)
		}
		c.Interval = caddy.Duration(n)
		p.Canary = c
	}
	given, err := readBlock(d, "canary", c.option)
	if err != nil {
		return err
	}
	if c.Interval == 0 && given > 0 {
		return d.Err("'canary off' takes no block: none is sent")
	}
	if err := c.check(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// option reads the option that the dispenser stands on.
func (c *Canary) option(d *caddyfile.Dispenser) error {
	switch name := d.Val(); name {
	case "prompt":
		return readWord(d, &c.Prompt, nil)
	case "expect":
		return readWord(d, &c.Expect, nil)
	case "model":
		return readWord(d, &c.Model, nil)
	case "max_tokens":
		return readCount(d, &c.MaxTokens, llmlb.MaxCanaryTokens)
	case "timeout":
		return readDuration(d, &c.Timeout)
	case "fails":
		return readCount(d, &c.Fails, maxInRow)
	default:
		return d.Errf("unknown option '%s' of 'canary'; have %s", name, strings.Join(canaryOptions, ", "))
	}
}
