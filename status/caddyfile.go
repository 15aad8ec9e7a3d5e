package status

import (
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("llm_status", parseCaddyfile)
	// Before llm_proxy, which answers everything: a page at a path of the same site
	// would not be reached behind it.
	httpcaddyfile.RegisterDirectiveOrder("llm_status", httpcaddyfile.Before, "respond")
}

func parseCaddyfile(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	s := new(Handler)
	if err := s.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	return s, nil
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Each line is
// optional:
//
//	llm_status [<matcher>] {
//		pool          <name…>
//		addresses
//		allow_actions [unguarded]
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.ArgErr()
	}
	seen := make(map[string]bool)
	for d.NextBlock(0) {
		option := d.Val()
		if seen[option] && option != "pool" {
			return d.Errf("option '%s' is given twice", option)
		}
		seen[option] = true
		args := d.RemainingArgs()
		switch option {
		case "pool":
			if len(args) == 0 {
				return d.ArgErr()
			}
			for _, name := range args {
				if name == "" || slices.Contains(h.Pools, name) {
					return d.Errf("pool '%s' is empty or named twice", name)
				}
				h.Pools = append(h.Pools, name)
			}
		case "addresses":
			if len(args) > 0 {
				return d.ArgErr()
			}
			h.Addresses = true
		case "allow_actions":
			if len(args) > 1 || len(args) == 1 && args[0] != "unguarded" {
				return d.Errf("allow_actions: '%s' is not known; have nothing, or 'unguarded' where something before Caddy sees to who may open the page", args[0])
			}
			h.AllowActions, h.Unguarded = true, len(args) == 1
		default:
			return d.Errf("unknown option '%s'; have pool, addresses, allow_actions", option)
		}
	}
	return nil
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Handler)(nil)
