package selection

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Session rates the home of the conversation 1 and every other server 0. The
// home is the server on which the beginning of the conversation, or the session
// that the client names, falls by hashing: every gateway with the same
// affinity_key finds the same one, and an endpoint of weight 2 is the home of
// twice as many conversations. A request without a prompt has no home.
type Session struct{}

// CaddyModule returns the Caddy module information.
func (*Session) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: scorerNamespace + ".session", New: func() caddy.Module { return new(Session) }}
}

// Score implements llmlb.Scorer.
func (*Session) Score(_ *llmlb.Call, v *llmlb.View) float64 {
	if v.Home {
		return 1
	}
	return 0
}

var _ llmlb.Scorer = (*Session)(nil)
