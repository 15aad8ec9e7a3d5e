package transport

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// OptionNames returns the names of our own options, for messages.
func OptionNames() []string { return []string{"headers"} }

// Option reads the option line that d stands on, if it is one of ours. It
// leaves d alone and returns false otherwise.
func (t *Transport) Option(d *caddyfile.Dispenser) (known bool, err error) {
	if d.Val() != "headers" {
		return false, nil
	}
	if !d.NextArg() {
		return true, d.ArgErr()
	}
	if v := d.Val(); v != on && v != off {
		return true, d.Errf("headers: '%s' is neither 'on' nor 'off'", v)
	}
	t.Headers = d.Val()
	if d.NextArg() {
		return true, d.ArgErr()
	}
	return true, nil
}

// UnmarshalCaddyfile reads a block whose first token, the module's name, may be
// any word:
//
//	llm {
//		headers on|off
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
	// The brace must claim the head's line: on a line of its own it would begin
	// another segment, and every option would be dropped without a word.
	brace, end := head, rest[len(rest)-1]
	brace.Text, end.Text = "{", "}"
	end.Line++
	block := append([]caddyfile.Token{head, brace}, rest...)
	err := t.HTTPTransport.UnmarshalCaddyfile(caddyfile.NewDispenser(append(block, end)))
	if err != nil && strings.Contains(err.Error(), "unrecognized subdirective") {
		return d.WrapErr(unknownOption{err})
	}
	return err
}

// unknownOption adds to Caddy's message, which names the word and its line, what
// else would have been understood.
type unknownOption struct{ error }

func (e unknownOption) Error() string {
	return e.error.Error() + "; have " + strings.Join(OptionNames(), ", ") + " and the options of 'transport http'"
}

func (e unknownOption) Unwrap() error { return e.error }
