package admission

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"
)

// OptionNames returns the names of the handler's options, for messages.
func OptionNames() []string {
	return []string{
		"pool", "paths", "max_body", "body_timeout", "queue", "class", "deadline_header", "tenant", "tenant_limit",
		"client_limit", "model", "allow_fields", "usage", "heartbeat", "errors",
	}
}

// repeatable options add to what they said before.
var repeatable = []string{"paths", "class", "tenant_limit", "model", "allow_fields"}

// Repeatable reports whether the option may stand more than once.
func Repeatable(name string) bool { return slices.Contains(repeatable, name) }

// Option reads the option line that d stands on, if it is one of the handler's.
// It leaves d alone and returns false otherwise.
func (h *Handler) Option(d *caddyfile.Dispenser) (known bool, err error) {
	switch d.Val() {
	case "pool":
		err = one(d, &h.Pool)
	case "paths":
		err = h.paths(d)
	case "max_body":
		var text string
		if err = one(d, &text); err == nil {
			n, wrong := humanize.ParseBytes(text)
			if wrong != nil || n == 0 {
				return true, d.Errf("max_body: '%s' is not a size, such as 32MiB", text)
			}
			if n > maxMaxBody {
				return true, d.Errf("max_body: '%s' is over the most that is allowed, 4GiB", text)
			}
			h.MaxBody = int64(n)
		}
	case "body_timeout":
		var text string
		if err = one(d, &text); err == nil {
			t, wrong := caddy.ParseDuration(text)
			if wrong != nil || t <= 0 {
				return true, d.Errf("body_timeout: '%s' is not a duration, such as 30s", text)
			}
			h.BodyTimeout = caddy.Duration(t)
		}
	case "allow_fields":
		names := d.RemainingArgs()
		if len(names) == 0 {
			return true, d.ArgErr()
		}
		for _, name := range names {
			if err := checkField(name); err != nil {
				return true, d.WrapErr(err)
			}
		}
		h.AllowFields = append(h.AllowFields, names...)
	case "queue":
		err = h.queue(d)
	case "class":
		err = h.class(d)
	case "deadline_header":
		err = h.deadlineHeader(d)
	case "tenant":
		err = h.tenant(d)
	case "tenant_limit":
		err = h.tenantLimit(d)
	case "client_limit":
		err = h.clientLimit(d)
	case "model":
		err = h.model(d)
	case "usage":
		if err = one(d, &h.Usage); err == nil && h.Usage != observe && h.Usage != inject {
			return true, d.Errf("usage: '%s' is neither 'observe' nor 'inject'", h.Usage)
		}
	case "heartbeat":
		err = h.heartbeat(d)
	case "errors":
		if err = one(d, &h.Errors); err == nil && h.Errors != write && h.Errors != pass {
			return true, d.Errf("errors: '%s' is neither 'write' nor 'pass'", h.Errors)
		}
	default:
		return false, nil
	}
	return true, err
}

// one reads exactly one argument.
func one(d *caddyfile.Dispenser, to *string) error {
	if !d.Args(to) || d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

// paths reads "paths + <pattern…>" and "paths all".
func (h *Handler) paths(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	switch {
	case len(args) == 1 && args[0] == all:
		h.Paths = []string{all}
		return nil
	case len(args) < 2 || args[0] != "+":
		return d.Errf("paths: write '+' and the paths to serve besides those of inference, or 'all'")
	}
	for _, p := range args[1:] {
		if p == all {
			return d.Errf("paths: 'all' stands alone, without '+'")
		}
		if err := checkPattern(p); err != nil {
			return d.WrapErr(err)
		}
	}
	h.Paths = append(h.Paths, args[1:]...)
	return nil
}

// heartbeat reads "heartbeat <interval>" and "heartbeat off".
func (h *Handler) heartbeat(d *caddyfile.Dispenser) error {
	var text string
	if err := one(d, &text); err != nil {
		return err
	}
	if text == "off" {
		h.Heartbeat = 0
		return nil
	}
	t, err := caddy.ParseDuration(text)
	if err != nil || t < minHeartbeat || t > maxHeartbeat {
		return d.Errf("heartbeat: '%s' is not an interval from %v to %v, or 'off'", text, minHeartbeat, maxHeartbeat)
	}
	h.Heartbeat = caddy.Duration(t)
	return nil
}

// UnmarshalCaddyfile reads the directive:
//
//	llm_admission [<matcher>] {
//		pool         <name>
//		paths        + <pattern…> | all
//		max_body     <size>
//		body_timeout <duration>
//		queue        [<calls>|off] {
//			max_wait   <duration>
//			max_bytes  <size>
//			max_tokens <n>
//		}
//		class        <name> {
//			header     <field> <value>
//			expression <cel>
//			share      <percent>
//			max_wait   <duration>
//			deadline   <duration>
//			saturation <ratio>|off
//		}
//		deadline_header <field>
//		tenant       <placeholder>
//		tenant_limit concurrent|tokens_per_minute|weight <n> [<tenant>]
//		client_limit concurrent <n>
//		model        <alias> <name>
//		allow_fields <name…>
//		usage        observe|inject
//		heartbeat    <interval>|off
//		errors       write|pass
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.ArgErr()
	}
	first := map[string]int{}
	for d.NextBlock(0) {
		name, line := d.Val(), d.Line()
		if before, twice := first[name]; twice && !Repeatable(name) {
			return d.Errf("option '%s' is given twice, first at line %d", name, before)
		}
		first[name] = line
		known, err := h.Option(d)
		if err != nil {
			return err
		}
		if !known {
			return d.Errf("unknown option '%s'; have %s", d.Val(), strings.Join(OptionNames(), ", "))
		}
	}
	return nil
}
