package admission

import (
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"
)

const queueOptions = "max_wait, max_bytes, max_tokens"

// queue reads "queue [<calls>|off] { … }".
func (h *Handler) queue(d *caddyfile.Dispenser) error {
	q := new(Queue)
	if d.NextArg() {
		switch n, err := strconv.Atoi(d.Val()); {
		case d.Val() == "off":
			q.Off = true
		case err != nil || n < 0 || n > maxCalls:
			return d.Errf("queue: '%s' is not a number of requests from 0 to %d, or 'off'", d.Val(), maxCalls)
		default:
			q.Calls = &n
		}
		if d.NextArg() {
			return d.Errf("queue: unexpected argument '%s'; write 'queue [<calls>|off] {' and its options: %s", d.Val(), queueOptions)
		}
	}
	h.Queue = q
	given := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		if given[name] {
			return d.Errf("queue: option '%s' is given twice", name)
		}
		given[name] = true
		if err := q.option(d); err != nil {
			return err
		}
	}
	return nil
}

// option reads one line of the block.
func (q *Queue) option(d *caddyfile.Dispenser) error {
	var text string
	switch name := d.Val(); name {
	case "max_wait":
		if err := one(d, &text); err != nil {
			return err
		}
		t, err := caddy.ParseDuration(text)
		if err != nil || t < 0 {
			return d.Errf("queue: max_wait: '%s' is not a duration, such as 30s, or 0 for no waiting", text)
		}
		q.MaxWait = (*caddy.Duration)(&t)
	case "max_bytes":
		if err := one(d, &text); err != nil {
			return err
		}
		n, err := humanize.ParseBytes(text)
		if err != nil || n == 0 || n > maxMaxBytes {
			return d.Errf("queue: max_bytes: '%s' is not a size up to 1TiB, such as 256MiB", text)
		}
		q.MaxBytes = int64(n)
	case "max_tokens":
		if err := one(d, &text); err != nil {
			return err
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxMaxTokens {
			return d.Errf("queue: max_tokens: '%s' is not a number of tokens from 1 to %d", text, int64(maxMaxTokens))
		}
		q.MaxTokens = n
	default:
		return d.Errf("queue: unknown option '%s'; have %s", name, queueOptions)
	}
	return nil
}
