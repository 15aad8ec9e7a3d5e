package transport

import (
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// inheritedError makes sure that an error in an option of Caddy's own transport
// says which one it is: "bad timeout value" may be about any of four. The options
// are rest, the lines of the block, and head is the block's first word.
func inheritedError(head caddyfile.Token, rest []caddyfile.Token, err error) error {
	if err == nil {
		return nil
	}
	lines := caddyfile.NewDispenser(rest)
	for lines.Next() {
		name, line := lines.Val(), lines.NextSegment()
		alone := reverseproxy.HTTPTransport{}
		wrong := alone.UnmarshalCaddyfile(caddyfile.NewDispenser(inBraces(head, line)))
		if wrong != nil && wrong.Error() == err.Error() && !strings.Contains(err.Error(), name) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return err
}

// inBraces makes a block of lines. The opening brace must claim the head's line: on
// a line of its own it would begin another segment, and every option would be
// dropped without a word.
func inBraces(head caddyfile.Token, lines []caddyfile.Token) []caddyfile.Token {
	brace, end := head, lines[len(lines)-1]
	brace.Text, end.Text = "{", "}"
	end.Line++
	return append(append([]caddyfile.Token{head, brace}, lines...), end)
}

// checkInherited refuses times below zero, with which each connection would fail
// before it is tried. Caddy takes them.
func (t *Transport) checkInherited() error {
	if t.HTTPTransport == nil {
		return nil
	}
	tls := caddy.Duration(0)
	if t.TLS != nil {
		tls = t.TLS.HandshakeTimeout
	}
	for _, o := range []struct {
		name  string
		value caddy.Duration
	}{
		{"dial_timeout", t.DialTimeout},
		{"tls_timeout", tls},
		{"response_header_timeout", t.ResponseHeaderTimeout},
		{"expect_continue_timeout", t.ExpectContinueTimeout},
		{"read_timeout", t.ReadTimeout},
		{"write_timeout", t.WriteTimeout},
	} {
		if o.value < 0 {
			return fmt.Errorf("%s: %v is negative", o.name, time.Duration(o.value))
		}
	}
	return nil
}
