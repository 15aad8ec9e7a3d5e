package caddyfile

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llmlb/caddy-llmlb/admission"
)

// parseApp reads the global option. Syntax:
//
//	llmlb {
//	}
//
// It has no options yet: everything is said where the pool is. Writing it puts
// the app into the configuration, which happens by itself wherever a pool is.
func parseApp(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next() // the option's name
	if existing != nil {
		return nil, d.Err("global option 'llmlb' is given twice")
	}
	if d.NextArg() {
		return nil, d.ArgErr()
	}
	if d.NextBlock(0) {
		return nil, d.Errf("unknown option '%s'; llmlb has no options, pools are configured where they are used", d.Val())
	}
	return httpcaddyfile.App{Name: "llmlb", Value: json.RawMessage("{}")}, nil
}

// parseAdmission reads the directive llm_admission; the handler knows its own
// grammar.
func parseAdmission(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	a := new(admission.Handler)
	if err := a.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	return a, nil
}
