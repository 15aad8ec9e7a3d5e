package selection

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// endpointOptions are the options of an endpoint's block.
var endpointOptions = []string{"name", "weight", "zone", "max_concurrent", "max_tokens", "drain"}

// EndpointHint says where an option of that name stands, if it is one that is
// easily written beside an endpoint's block instead of in it.
func EndpointHint(name string) string {
	if slices.Contains(endpointOptions, name) {
		return "it stands in a block 'endpoint <upstream> { … }'; "
	}
	return ""
}

// readEndpoint reads what is special about one upstream.
func (p *Policy) readEndpoint(d *caddyfile.Dispenser) error {
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	e := Endpoint{Upstream: args[0]}
	if slices.ContainsFunc(p.Endpoints, func(o Endpoint) bool { return o.Upstream == e.Upstream }) {
		return d.Errf("endpoint '%s' is described twice", e.Upstream)
	}
	given := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		if given[name] {
			return d.Errf("option '%s' of endpoint '%s' is given twice", name, e.Upstream)
		}
		given[name] = true
		if err := e.option(d); err != nil {
			return err
		}
	}
	p.Endpoints = append(p.Endpoints, e)
	return nil
}

// option reads the option that the dispenser stands on.
func (e *Endpoint) option(d *caddyfile.Dispenser) error {
	switch name := d.Val(); name {
	case "name", "zone":
		to := &e.Name
		if name == "zone" {
			to = &e.Zone
		}
		return readWord(d, to, func(s string) error { return checkName(name, s) })
	case "weight":
		return readWeight(d, &e.Weight)
	case "max_concurrent":
		return readCount(d, &e.MaxConcurrent, maxConcurrent)
	case "max_tokens":
		return readCount(d, &e.MaxTokens, maxTokens)
	case "drain":
		e.Drain = true
		if d.NextArg() {
			return d.Errf("option 'drain' of endpoint '%s' takes no argument, got '%s'", e.Upstream, d.Val())
		}
		return nil
	default:
		return d.Errf("unknown option '%s' of endpoint '%s'; have %s", name, e.Upstream, strings.Join(endpointOptions, ", "))
	}
}
