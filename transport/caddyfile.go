package transport

import (
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// OptionNames returns the names of our own options, for messages.
func OptionNames() []string {
	return []string{"error_event", "failover", "first_token", "headers", "stall_timeout"}
}

// Option reads the option line that d stands on, if it is one of ours. It
// leaves d alone and returns false otherwise.
func (t *Transport) Option(d *caddyfile.Dispenser) (known bool, err error) {
	switch d.Val() {
	case "headers":
		err = word(d, &t.Headers, on, off)
	case "error_event":
		err = word(d, &t.ErrorEvent, on, off)
	case "failover":
		err = word(d, &t.Failover, noToken, unsent, off)
	case "stall_timeout":
		if option := d.Val(); d.NextArg() {
			err = duration(d, option, d.Val(), &t.StallTimeout)
		} else {
			err = d.Errf("%s: want a duration such as 60s", option)
		}
	case "first_token":
		err = t.firstToken(d)
	default:
		return false, nil
	}
	if err == nil && d.NextArg() {
		err = d.ArgErr()
	}
	return true, err
}

// firstToken reads "off", or the least and the most time.
func (t *Transport) firstToken(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 1 && args[0] == off {
		t.FirstToken = off
		return nil
	}
	if len(args) != 2 {
		return d.Errf("first_token: want 'off', or the least and the most time, such as '5s 120s'")
	}
	for i, to := range []*caddy.Duration{&t.FirstTokenMin, &t.FirstTokenMax} {
		if err := duration(d, "first_token", args[i], to); err != nil {
			return err
		}
	}
	if t.FirstTokenMin > t.FirstTokenMax {
		return d.Errf("first_token: the least time, %v, is longer than the most, %v",
			time.Duration(t.FirstTokenMin), time.Duration(t.FirstTokenMax))
	}
	return nil
}

// word reads an argument that is one of a few.
func word(d *caddyfile.Dispenser, to *string, have ...string) error {
	option := d.Val()
	if !d.NextArg() {
		return d.Errf("%s: want one of %s", option, strings.Join(have, ", "))
	}
	v := d.Val()
	if !slices.Contains(have, v) {
		if len(have) == 2 {
			return d.Errf("%s: '%s' is neither '%s' nor '%s'", option, v, have[0], have[1])
		}
		return d.Errf("%s: '%s' is unknown; have %s", option, v, strings.Join(have, ", "))
	}
	*to = v
	return nil
}

// duration reads a time.
func duration(d *caddyfile.Dispenser, option, text string, to *caddy.Duration) error {
	v, err := caddy.ParseDuration(text)
	if err != nil {
		return d.Errf("%s: parsing '%s': want a duration such as 5s", option, text)
	}
	if v < shortest || v > longest {
		return d.Errf("%s: %v is out of range; have %v to %v", option, v, shortest, longest)
	}
	*to = caddy.Duration(v)
	return nil
}

// UnmarshalCaddyfile reads a block whose first token, the module's name, may be
// any word:
//
//	llm {
//		first_token   off | <min> <max>
//		failover      no_token|unsent|off
//		stall_timeout <duration>
//		error_event   on|off
//		headers       on|off
//		<any option of transport http>
//	}
func (t *Transport) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if t.HTTPTransport == nil {
		t.HTTPTransport = new(reverseproxy.HTTPTransport)
	}
	d.Next() // the module's name
	head := d.Token()
	if d.NextArg() {
		return d.ArgErr()
	}
	var rest []caddyfile.Token
	for d.NextBlock(0) {
		known, err := t.Option(d)
		if err != nil {
			return err
		}
		if !known {
			rest = append(rest, d.NextSegment()...)
		}
	}
	if len(rest) == 0 {
		return nil
	}

	// What is left goes to Caddy's own transport as if the block were its own.
	err := t.HTTPTransport.UnmarshalCaddyfile(caddyfile.NewDispenser(inBraces(head, rest)))
	if err != nil && strings.Contains(err.Error(), "unrecognized subdirective") {
		return d.WrapErr(unknownOption{err})
	}
	return inheritedError(head, rest, err)
}

// unknownOption adds to Caddy's message, which names the word and its line, what
// else would have been understood.
type unknownOption struct{ error }

func (e unknownOption) Error() string {
	return e.error.Error() + "; have " + strings.Join(OptionNames(), ", ") + " and the options of 'transport http'"
}

func (e unknownOption) Unwrap() error { return e.error }
