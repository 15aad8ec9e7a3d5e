package admission

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"golang.org/x/net/http/httpguts"
)

const classOptions = "header, expression, share, max_wait, deadline, saturation"

// class reads "class <name> { … }".
func (h *Handler) class(d *caddyfile.Dispenser) error {
	var c Class
	if err := one(d, &c.Name); err != nil {
		return err
	}
	if !className.MatchString(c.Name) {
		return d.WrapErr(c.check())
	}
	for i := range h.Classes {
		if h.Classes[i].Name == c.Name {
			return d.Errf("class: '%s' is given twice", c.Name)
		}
	}
	if len(h.Classes) == maxClasses {
		return d.Errf("class: '%s' is one too many; have at most %d", c.Name, maxClasses)
	}
	given := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		if given[name] {
			return d.Errf("class '%s': option '%s' is given twice", c.Name, name)
		}
		given[name] = true
		if err := c.option(d); err != nil {
			return err
		}
	}
	h.Classes = append(h.Classes, c)
	return nil
}

// option reads one line of the block.
func (c *Class) option(d *caddyfile.Dispenser) error {
	name := d.Val()
	switch name {
	case "header":
		return c.readHeader(d)
	case "expression":
		return c.readExpression(d)
	case "share", "max_wait", "deadline", "saturation":
	default:
		return d.Errf("class '%s': unknown option '%s'; have %s", c.Name, name, classOptions)
	}
	var text string
	if err := one(d, &text); err != nil {
		return err
	}
	var err error
	switch name {
	case "share":
		c.Share, err = ratio(text, maxShare)
	case "saturation":
		if text == "off" {
			c.Saturation = new(float64)
			return nil
		}
		if c.Saturation, err = ratio(text, maxSaturation); err == nil && *c.Saturation == 0 {
			err = fmt.Errorf("have 'off' for however busy the pool is")
		}
	case "max_wait":
		t, wrong := caddy.ParseDuration(text)
		if wrong != nil || t < 0 {
			err = fmt.Errorf("have a duration, such as 15m, or 0 for no waiting")
		}
		c.MaxWait = (*caddy.Duration)(&t)
	case "deadline":
		t, wrong := caddy.ParseDuration(text)
		if wrong != nil || t <= 0 {
			err = fmt.Errorf("have a duration, such as 10s")
		}
		c.Deadline = caddy.Duration(t)
	}
	if err != nil {
		return d.Errf("class '%s': %s: bad value '%s'; %w", c.Name, name, text, err)
	}
	return nil
}

func (c *Class) readHeader(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 2 {
		return d.ArgErr()
	}
	if c.Header, c.Value = args[0], args[1]; !httpguts.ValidHeaderFieldName(c.Header) || c.Value == "" || !printable(c.Value) {
		return d.Errf("class '%s': header: %q and %q are not a header and its value", c.Name, c.Header, c.Value)
	}
	return nil
}

// readExpression takes the rest of the line, as Caddy's matcher "expression"
// does: quotes of several words belong to the expression, those of a single one
// only hold it together.
func (c *Class) readExpression(d *caddyfile.Dispenser) error {
	if d.CountRemainingArgs() > 1 {
		c.Expression = strings.Join(d.RemainingArgsRaw(), " ")
		return nil
	}
	if !d.NextArg() {
		return d.ArgErr()
	}
	if c.Expression = d.Val(); c.Expression == "" {
		return d.Errf("class '%s': expression: it is empty", c.Name)
	}
	return nil
}

// ratio reads a number from 0 to most, or the same as percent. The error says
// what there is to write.
func ratio(text string, most float64) (*float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	r, err := strconv.ParseFloat(number, 64)
	if percent {
		r /= 100
	}
	if err == nil && !percent && r > most && r <= 100*most {
		return nil, fmt.Errorf("write '%s%%' for percent", text)
	}
	if err != nil || !(r >= 0 && r <= most) {
		return nil, fmt.Errorf("have 0 to %v, or 0%% to %v%%", most, 100*most)
	}
	return &r, nil
}
