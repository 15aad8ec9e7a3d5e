package caddyfile

import (
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

const (
	// defaultRetries is how many other servers a request may be tried on.
	defaultRetries = 2

	// maxRetries is more than anybody can mean.
	maxRetries = 100

	// minWriteTimeout and maxWriteTimeout bound how long a client may leave a
	// write waiting: less would cut off those on a bad line.
	minWriteTimeout = 100 * time.Millisecond
	maxWriteTimeout = 24 * time.Hour
)

// readRetries reads on how many other servers a request may be tried.
func (p *proxy) readRetries(d *caddyfile.Dispenser) error {
	if err := p.once(d); err != nil {
		return err
	}
	var text string
	if !d.AllArgs(&text) {
		return named("retries", d.ArgErr())
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxRetries {
		return d.Errf("parsing retries '%s': want a whole number from 0 to %d", text, maxRetries)
	}
	p.retries = n
	return nil
}

// readWriteTimeout reads how long a client may leave a write waiting. Caddy's
// servers allow a minute where nothing else is said.
func (p *proxy) readWriteTimeout(d *caddyfile.Dispenser) error {
	if err := p.once(d); err != nil {
		return err
	}
	var text string
	if !d.AllArgs(&text) {
		return named("write_timeout", d.ArgErr())
	}
	n, err := caddy.ParseDuration(text)
	if err != nil || n < minWriteTimeout || n > maxWriteTimeout {
		return d.Errf("parsing write_timeout '%s': want a duration from %v to %v", text, minWriteTimeout, maxWriteTimeout)
	}
	p.writeTimeout = n
	return nil
}
